import '../support/gate-environment.ts';
import { afterAll, expect, test } from 'vitest';
import type { Lease } from '../../src/journal/lease.ts';
import { kindsOf, loadTestBatch, type TestWorker } from '../support/attempts.ts';
import { openAllGates, shutGate } from '../support/gates.ts';
import { journalBench } from '../support/journal-bench.ts';
import { intentRow, outcomeRow, stepRow } from '../support/journal-rows.ts';
import { until } from '../support/until.ts';

const bench = journalBench();
afterAll(openAllGates);

/** Queues rows while another group is under way, so that they go out together. */
async function together<T>(worker: TestWorker, batch: string, queue: () => T): Promise<T> {
  const { lease } = await worker.claim(batch);
  const gate = shutGate('journal.group.before');
  const first = worker.env.writer.writeStep(stepRow(lease, 'makes the others wait'));
  await gate.reached();
  const queued = queue();
  gate.open();
  await first;
  return queued;
}

/** How many statements committed the rows, by the transactions that wrote them. */
async function transactionsOf(batch: string, table: string): Promise<number> {
  const { rows } = await bench.db.pool.query(
    `SELECT count(DISTINCT xmin::text)::integer AS count FROM madrugada.${table} WHERE batch_key = $1`,
    [batch],
  );
  return rows[0].count;
}

test('rows that come while a commit is under way go out together in one', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 4 });
  const worker = await bench.workers.add();
  const leases = [await worker.claim(batch), await worker.claim(batch), await worker.claim(batch)];
  await Promise.all(
    await together(worker, batch, () => leases.map(({ lease }) => worker.env.writer.writeIntent(intentRow(lease, 1)))),
  );

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 -', '1.1 -', '1.1 -']);
  expect(await transactionsOf(batch, 'call_intent')).toBe(1);
});

test('a row that the database refuses does not take the charged outcomes of its group along', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 });
  const worker = await bench.workers.add();
  const { lease } = await worker.claim(batch);
  const { writer } = worker.env;
  await writer.writeIntent(intentRow(lease, 1));
  const [bad, good] = await Promise.allSettled(
    await together(worker, batch, () => [
      writer.writeIntent(intentRow(lease, 2, { scope: 'with a NUL: \0' })),
      writer.writeOutcome(outcomeRow(lease, 1)),
    ]),
  );

  expect(bad).toMatchObject({ status: 'rejected', reason: { code: '22021' } });
  expect(good).toMatchObject({ status: 'fulfilled', value: { answers: true } });
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('a fenced intent is refused without holding up the others of its group', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 3 });
  const worker = await bench.workers.add();
  const [one, two] = [await worker.claim(batch), await worker.claim(batch)];
  const { writer } = worker.env;
  const written = await Promise.all(
    await together(worker, batch, () => [
      writer.writeIntent(intentRow({ ...one.lease, token: 99 }, 1)),
      writer.writeIntent(intentRow(two.lease, 1)),
    ]),
  );

  expect(written).toEqual([false, true]);
});

test('a group locks its tasks in the order of their ids, as everything does that locks several', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 3 });
  const worker = await bench.workers.add();
  const [low, high] = [(await worker.claim(batch)).lease, (await worker.claim(batch)).lease];
  const sweep = await bench.db.pool.connect();
  const lock = 'SELECT FROM madrugada.task WHERE id = $1 FOR UPDATE NOWAIT';
  await sweep.query('BEGIN');
  await sweep.query(lock, [low.taskId]);
  const written = await together(worker, batch, () => [
    worker.env.writer.writeIntent(intentRow(high, 1)),
    worker.env.writer.writeIntent(intentRow(low, 1)),
  ]);
  await until('the group waits for the lower task', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`,
      [`madrugada/w${worker.id}/journal`],
    );
    return rows.length > 0;
  });
  await sweep.query(lock, [high.taskId]); // refused at once if the group already held it
  await sweep.query('COMMIT');
  sweep.release();

  expect(await Promise.all(written)).toEqual([true, true]);
});

test('a row queued in the very turn in which the one before is reported is written, not forgotten', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const { lease } = await worker.claim(batch);
  for (let seq = 1; seq <= 20; seq += 1) await worker.env.writer.writeIntent(intentRow(lease, seq));

  expect((await kindsOf(bench.db, batch)).length).toBe(20);
});

test('answers are handed out in the order in which the journal numbered them', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 });
  const worker = await bench.workers.add();
  const { lease } = await worker.claim(batch);
  const { writer } = worker.env;
  const seqs = [1, 2, 3, 4, 5];
  for (const seq of seqs) await writer.writeIntent(intentRow(lease, seq));
  const order: number[] = [];
  await Promise.all(
    await together(worker, batch, () =>
      seqs.map((seq) => writer.writeOutcome(outcomeRow(lease, seq)).then(({ completedNo }) => order.push(completedNo))),
    ),
  );

  expect(order).toEqual(order.toSorted((a, b) => a - b));
  expect(order.length).toBe(5);
});

test('a process has one connection that writes its journal, however many slots it has', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 8 });
  const worker = await bench.workers.add();
  const leases: Lease[] = [];
  for (let n = 0; n < 8; n += 1) leases.push((await worker.claim(batch)).lease);
  await Promise.all(leases.map((lease) => worker.env.writer.writeIntent(intentRow(lease, 1))));
  const { rows } = await bench.db.pool.query('SELECT FROM pg_stat_activity WHERE application_name = $1', [
    `madrugada/w${worker.id}/journal`,
  ]);

  expect(rows.length).toBe(1);
});

test('an outcome whose statement is cancelled is written again: a charged outcome is never dropped', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const { lease } = await worker.claim(batch);
  await worker.env.writer.writeIntent(intentRow(lease, 1));
  const blocker = await bench.db.pool.connect();
  await blocker.query('BEGIN; LOCK TABLE madrugada.call_outcome IN ACCESS EXCLUSIVE MODE');
  const written = worker.env.writer.writeOutcome(outcomeRow(lease, 1));
  const pid = await until('the outcome waits for the table', async () => {
    const { rows } = await bench.db.pool.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`,
      [`madrugada/w${worker.id}/journal`],
    );
    return rows[0]?.pid;
  });
  await bench.db.pool.query('SELECT pg_cancel_backend($1)', [pid]);
  await blocker.query('COMMIT');
  blocker.release();

  expect(await written).toMatchObject({ answers: true });
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

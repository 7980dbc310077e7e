import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { kindsOf, loadTestBatch, type TestWorker, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { intentRow, outcomeRow, stepRow } from '../support/journal-rows.ts';
import { stallCommits } from '../support/stalled-commit.ts';
import { until } from '../support/until.ts';

const bench = journalBench();

/** A worker whose journal connection can be cut on its own side, as by a network that fails; a new one is to be had from `mayReconnect` on. */
async function cuttableWorker(mayReconnect = Promise.resolve()): Promise<{ worker: TestWorker; cut(): void }> {
  let client: Client | undefined;
  const worker = await bench.workers.add({
    connectJournal: async (connect) => {
      if (client) await mayReconnect;
      client = await connect();
      return client;
    },
  });
  return {
    worker,
    cut: () => (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy(),
  };
}

/** Waits until a repeated INSERT waits for the transaction that the lost connection left behind. */
async function repeatWaits(worker: TestWorker): Promise<void> {
  await until('the repeated insert waits for the first', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock' AND wait_event = 'transactionid'`,
      [`madrugada/w${worker.id}/journal`],
    );
    return rows.length > 0;
  });
}

test('an intent whose commit was not seen is repeated, waits for the first, and counts once', async () => {
  const batch = await loadTestBatch(bench.db);
  const { worker, cut } = await cuttableWorker();
  const intents = await stallCommits(bench.db, 'call_intent', batch);
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  await intents.stalled();
  cut();
  await repeatWaits(worker);
  const sentMeanwhile = bench.provider.requestCount;
  await intents.release();

  expect((await attempt.result).ending).toBe('completed');
  expect(sentMeanwhile).toBe(0);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
  expect(bench.provider.requestCount).toBe(1);
});

test('an outcome whose commit was not seen is repeated and found, and answers the call', async () => {
  const batch = await loadTestBatch(bench.db);
  const { worker, cut } = await cuttableWorker();
  const outcomes = await stallCommits(bench.db, 'call_outcome', batch);
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  await outcomes.stalled();
  cut();
  await repeatWaits(worker);
  await outcomes.release();

  expect((await attempt.result).ending).toBe('completed');
  expect((await taskOf(bench.db, batch)).result).toBe('answer to one');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('a step whose commit was not seen is repeated and found', async () => {
  const batch = await loadTestBatch(bench.db);
  const { worker, cut } = await cuttableWorker();
  const steps = await stallCommits(bench.db, 'step_record', batch);
  const attempt = await worker.start(batch, (task) => task.step('look up', () => 7));
  await steps.stalled();
  cut();
  await repeatWaits(worker);
  await steps.release();

  expect((await attempt.result).ending).toBe('completed');
  expect((await taskOf(bench.db, batch)).result).toBe(7);
});

for (const table of ['call_intent', 'call_outcome', 'step_record'] as const)
  test(`a backend terminated while it commits to ${table} is survived: the row is written by another`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add();
    const stalled = await stallCommits(bench.db, table, batch);
    const attempt = await worker.start(batch, async (task) => `${task.random() < 1}, ${await ask(task, 'one')}`);
    const pid = await stalled.stalled();
    await bench.db.pool.query('SELECT pg_terminate_backend($1)', [pid]);
    await until('the backend is gone', async () => {
      const { rows } = await bench.db.pool.query('SELECT FROM pg_stat_activity WHERE pid = $1', [pid]);
      return rows.length === 0;
    });
    await stalled.release();

    expect((await attempt.result).ending).toBe('completed');
    expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
    expect(bench.provider.requestCount).toBe(1);
  });

test('a row of another lease under the same key is not taken for our own whose commit was not seen', async () => {
  const batch = await loadTestBatch(bench.db);
  const reconnection = Promise.withResolvers<void>();
  const { worker, cut } = await cuttableWorker(reconnection.promise);
  const other = await bench.workers.add();
  const { lease } = await worker.claim(batch);
  const { writer } = worker.env;
  const intents = await stallCommits(bench.db, 'call_intent', batch);
  const written = writer.writeIntent(intentRow(lease, 1));
  const pid = await intents.stalled();
  cut();
  await bench.db.pool.query('SELECT pg_terminate_backend($1)', [pid]);
  await intents.release();
  await bench.db.pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [lease.taskId, 'by the test']);
  const { lease: successor } = await other.claim(batch);
  await other.env.writer.writeIntent(intentRow(successor, 1));
  reconnection.resolve();

  expect(await written).toBe(false);
});

test('with several rows in a group whose commit was not seen each is looked at by itself', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 });
  const { worker, cut } = await cuttableWorker();
  const [one, two] = [await worker.claim(batch), await worker.claim(batch)];
  const { writer } = worker.env;
  await writer.writeIntent(intentRow(one.lease, 1));
  const outcomes = await stallCommits(bench.db, 'call_outcome', batch);
  void writer.writeStep(stepRow(one.lease, 'makes the others wait for one another'));
  const written = Promise.all([
    writer.writeOutcome(outcomeRow(one.lease, 1)),
    writer.writeStep(stepRow(two.lease, 'look up')),
    writer.writeIntent(intentRow(two.lease, 1)),
    writer.writeIntent(intentRow({ ...two.lease, token: 99 }, 2)),
  ]);
  await outcomes.stalled();
  cut();
  await repeatWaits(worker);
  await outcomes.release();

  expect(await written).toMatchObject([{ answers: true }, { completedNo: expect.any(Number) }, true, false]);
});

test('a large answer whose reading is interrupted by the database is read again, and the attempt goes on', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.message('x'.repeat(400_000));
  await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    throw new Error('the program breaks here');
  });
  const blocker = await bench.db.pool.connect();
  const second = await worker.attempt(batch, async (task) => {
    await blocker.query('BEGIN; LOCK TABLE madrugada.call_outcome IN ACCESS EXCLUSIVE MODE');
    const answer = ask(task, 'one');
    const pid = await until('the reader waits for the table', async () => {
      const { rows } = await bench.db.pool.query<{ pid: number }>(
        `SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`,
        [`madrugada/w${worker.id}/work`],
      );
      return rows[0]?.pid;
    });
    await bench.db.pool.query('SELECT pg_terminate_backend($1)', [pid]);
    await blocker.query('COMMIT');
    return (await answer).length;
  });
  blocker.release();

  expect(second).toMatchObject({ ending: 'completed', replayedCalls: 1 });
  expect((await taskOf(bench.db, batch)).result).toBe(400_000);
});

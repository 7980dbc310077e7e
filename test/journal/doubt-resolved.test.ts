import { expect, test } from 'vitest';
import { thisProcess } from '../../src/lease/process-identity.ts';
import { endWorker, registerWorker } from '../../src/lease/worker-row.ts';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { intentRow, outcomeRow } from '../support/journal-rows.ts';
import { until } from '../support/until.ts';

const bench = journalBench();

for (const doubtPolicy of ['pay_again', 'hold'] as const)
  test(`with policy ${doubtPolicy} an outcome that comes after the taker has read its journal, and before it parks, is not slept through`, async () => {
    const batch = await loadTestBatch(bench.db, { doubtPolicy });
    const [sender, taker] = [await bench.workers.add(), await bench.workers.add()];
    bench.provider.hold();
    const first = await sender.start(batch, (task) => ask(task, 'one'));
    const exchange = await bench.provider.arrival(1);
    await bench.db.pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [
      first.lease.taskId,
      'by the test',
    ]);
    const parked = await taker.attempt(batch, async (task) => {
      exchange.message();
      await first.result;
      return ask(task, 'one');
    });
    const again = await taker.attempt(batch, (task) => ask(task, 'one'));

    expect([parked.ending, again.ending]).toEqual(['parked', 'completed']);
    expect(bench.provider.requestCount).toBe(1);
  });

/** A task whose call is in doubt, held by a taker: its sender is a worker that has no process and no connection. */
async function taskInDoubt() {
  const batch = await loadTestBatch(bench.db);
  const taker = await bench.workers.add();
  const client = await bench.db.pool.connect();
  const senderId = await registerWorker(client, { ...thisProcess(), pid: 1 });
  client.release();
  const { lease } = await taker.claim(batch);
  await bench.db.pool.query('UPDATE madrugada.task SET worker_id = $2 WHERE id = $1', [lease.taskId, senderId]);
  await taker.env.writer.writeIntent(intentRow({ ...lease, workerId: senderId }, 1));
  await bench.db.pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [lease.taskId, 'by the test']);
  return { batch, taker, senderId, lease: (await taker.claim(batch)).lease };
}

/** Begins to park the task in a transaction that stays open, lets `meanwhile` run into it, and commits. */
async function whileParking(
  { taskId, workerId, token }: { taskId: number; workerId: number; token: number },
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  const parking = await bench.db.pool.connect();
  await parking.query('BEGIN');
  await parking.query(
    `SELECT madrugada.end_attempt($1, $2, $3, 'parked', '{"message": "in doubt"}', false, madrugada.now() + interval '630 s', 'doubt', 0)`,
    [taskId, workerId, token],
  );
  const done = meanwhile();
  await until('somebody waits for the row of the task being parked', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'transactionid'`,
    );
    return rows.length > 0;
  });
  await parking.query('COMMIT');
  parking.release();
  await done;
}

test('a death that is proven while a task is being parked for its doubt wakes the task', async () => {
  const { batch, taker, senderId, lease } = await taskInDoubt();
  await whileParking(lease, () => endWorker(taker.pool, senderId, 'its process is gone'));

  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', waiting_for: null });
  expect(await taker.tryClaim(batch)).toBeDefined();
});

test('a late outcome that comes while a task is being parked for its doubt wakes the task', async () => {
  const { batch, taker, senderId, lease } = await taskInDoubt();
  await whileParking(lease, async () => {
    await taker.env.writer.writeOutcome(outcomeRow({ ...lease, workerId: senderId }, 1));
    await taker.pool.query('SELECT madrugada.wake_task($1)', [lease.taskId]);
  });

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
  expect(await taker.tryClaim(batch)).toBeDefined();
});

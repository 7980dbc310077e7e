import { expect, test } from 'vitest';
import { sweepLeases } from '../../src/lease/reclaim.ts';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { moveClock } from '../support/move-clock.ts';
import { stallCommits } from '../support/stalled-commit.ts';
import { until } from '../support/until.ts';

const bench = journalBench();

/** Waits until a backend waits for a row of another transaction, and returns its statement. */
function rowLockWait(): Promise<string> {
  return until('somebody waits for a row lock', async () => {
    const { rows } = await bench.db.pool.query<{ query: string }>(
      `SELECT query FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple')`,
    );
    return rows[0]?.query;
  });
}

test('a takeover waits for an intent whose commit is stalled, and then sees it', async () => {
  const batch = await loadTestBatch(bench.db);
  const [holder, taker] = [await bench.workers.add(), await bench.workers.add({ limits: { restMs: 50 } })];
  const intents = await stallCommits(bench.db, 'call_intent', batch);
  bench.provider.hold();
  const first = await holder.start(batch, (task) => ask(task, 'one'));
  await intents.stalled();
  const takeAway = bench.db.pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [
    first.lease.taskId,
    'by the test',
  ]);
  expect(await rowLockWait()).toContain('lose_attempts');
  expect((await taskOf(bench.db, batch)).state).toBe('running');
  await intents.release();
  await takeAway;
  const second = await taker.attempt(batch, (task) => ask(task, 'one'));
  (await bench.provider.arrival(1)).message();
  await first.result;

  expect(second).toMatchObject({
    ending: 'parked',
    message: expect.stringContaining('dispatch 1 of call 1 is in doubt'),
  });
  expect(bench.provider.requestCount).toBe(1);
});

test('an intent that comes while its task is being taken away waits for the takeover, and is refused by it', async () => {
  const batch = await loadTestBatch(bench.db);
  const holder = await bench.workers.add();
  const { task, lease } = await holder.claim(batch);
  const taking = await bench.db.pool.connect();
  await taking.query('BEGIN');
  await taking.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [lease.taskId, 'by the test']);
  const attempt = holder.run(task, lease, (task) => ask(task, 'one'));
  expect(await rowLockWait()).toContain('call_intent');
  await taking.query('COMMIT');
  taking.release();

  expect((await attempt.result).ending).toBe('lost');
  expect(await kindsOf(bench.db, batch)).toEqual([]);
  expect(bench.provider.requestCount).toBe(0);
});

test('a sweep of expired leases passes over a task whose intent is being committed', async () => {
  const batch = await loadTestBatch(bench.db);
  const [holder, sweeper] = [await bench.workers.add(), await bench.workers.add()];
  const intents = await stallCommits(bench.db, 'call_intent', batch);
  const first = await holder.start(batch, (task) => ask(task, 'one'));
  await intents.stalled();
  await moveClock(bench.db, '11 minutes');
  const sweep = await sweepLeases(sweeper.pool, '-infinity');
  const { state } = await taskOf(bench.db, batch);
  await moveClock(bench.db, '-11 minutes');
  await intents.release();

  expect([sweep.released, state]).toEqual([0, 'running']);
  expect((await first.result).ending).toBe('completed');
});

import { afterEach, expect, test } from 'vitest';
import { sweepLeases } from '../../src/lease/reclaim.ts';
import { endWorker } from '../../src/lease/worker-row.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf, passages, taskEvents } from '../support/audit.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { claimFor, completeTask, holderOf, registerRow } from '../support/leases.ts';
import { moveClock } from '../support/move-clock.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { rowLockWait } from '../support/row-lock-wait.ts';

const bench = leaseBench();
const EXPIRED = 'its lease ran out: no heartbeat, or no progress';

/** Does something at a later hour, by the database's clock. */
async function later<T>(interval: string, work: () => Promise<T>): Promise<T> {
  await moveClock(bench.db, interval);
  try {
    return await work();
  } finally {
    await moveClock(bench.db, `-${interval}`);
  }
}

/** Leases that have run out, and nothing else: the moved clock makes every worker silent, too. */
async function sweep(expiredAfter = '-infinity'): Promise<number> {
  const { rows } = await bench.worker.pool.query<{ released: number }>(
    'SELECT madrugada.sweep_expired_leases($1) AS released',
    [expiredAfter],
  );
  return rows[0]?.released ?? 0;
}

afterEach(() => later('1 hour', sweep)); // no test finds another's leases

test('an expired lease goes back to pending, and its attempt counts as lost', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.worker.claim(batch);
  await later('11 minutes', sweep);

  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 1 });
  expect(await attemptsOf(bench.db, batch)).toMatchObject([{ ending: 'lost', error: EXPIRED }]);
});

test('an expired lease leaves one audit row, which says whose it was and why it went', async () => {
  const batch = await loadTestBatch(bench.db);
  const { slot, id: workerId } = bench.worker;
  await bench.worker.claim(batch);
  await later('11 minutes', sweep);

  expect((await taskEvents(bench.db, batch)).slice(1)).toEqual([
    { item: '1', event: 'resumed', slot, workerId, token: 1, reason: EXPIRED },
  ]);
});

test('task, attempt and audit row of a sweep are written in one transaction', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.worker.claim(batch);
  await later('11 minutes', async () => {
    const sweeping = await openTransaction(bench.db);
    await sweeping.client.query(`SELECT madrugada.sweep_expired_leases('-infinity')`);
    await sweeping.rollback();
  });

  expect((await taskOf(bench.db, batch)).state).toBe('running');
  expect(await attemptsOf(bench.db, batch)).toMatchObject([{ ending: null }]);
  expect(await passages(bench.db, batch)).toEqual(['claimed']);
});

test('a lease that has not run out stays where it is', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.worker.claim(batch);
  expect(await later('9 minutes', sweep)).toBe(0);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('a sweep passes over a task that is being completed, and so does not overwrite it', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  const completing = await openTransaction(bench.db);
  await completing.client.query(`SELECT madrugada.complete_task($1, $2, $3, '"answer"', 0)`, [
    lease.taskId,
    lease.workerId,
    lease.token,
  ]);
  const released = await later('11 minutes', sweep);
  await completing.commit();

  expect(released).toBe(0);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'completed', result: 'answer' });
  expect(await attemptsOf(bench.db, batch)).toMatchObject([{ ending: 'completed' }]);
});

test('a completion that comes while its task is being swept waits, and then finds the lease gone', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  const sweeping = await openTransaction(bench.db);
  await later('11 minutes', () => sweeping.client.query(`SELECT madrugada.sweep_expired_leases('-infinity')`));
  const completing = completeTask(bench.worker.pool, holderOf(lease), 'answer', 0);
  expect(await rowLockWait(bench.db)).toContain('complete_task');
  await sweeping.commit();

  expect(await completing).toBe(false);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', result: null });
});

test('a completion that a worker’s end has waited for stands', async () => {
  const batch = await loadTestBatch(bench.db);
  const dead = await registerRow(bench.db);
  const lease = await claimFor(bench.db, dead, batch);
  const completing = await openTransaction(bench.db);
  await completing.client.query(`SELECT madrugada.complete_task($1, $2, $3, '"answer"', 0)`, [
    lease.taskId,
    lease.workerId,
    lease.token,
  ]);
  const burying = endWorker(bench.worker.pool, dead, 'by the test');
  expect(await rowLockWait(bench.db)).toContain('end_worker');
  await completing.commit();

  expect(await burying).toBe(true);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'completed', result: 'answer' });
  expect(await attemptsOf(bench.db, batch)).toMatchObject([{ ending: 'completed' }]);
});

test('two sweeps at the same moment give a task back once', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.worker.claim(batch);
  const first = await openTransaction(bench.db);
  const second = await later('11 minutes', async () => {
    await first.client.query(`SELECT madrugada.sweep_expired_leases('-infinity')`);
    return sweep();
  });
  await first.commit();

  expect(second).toBe(0);
  expect(await passages(bench.db, batch)).toEqual(['claimed', 'resumed']);
});

test('a sweep looks no further back than to the moment until which leases were swept before', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.worker.claim(batch);
  const { rows } = await bench.db.pool.query(`SELECT (madrugada.now() + interval '10 minutes 1 second')::text AS at`);
  const beyond = await later('11 minutes', () => sweep(rows[0].at));

  expect([beyond, await later('11 minutes', sweep)]).toEqual([0, 1]);
});

test('the moment to sweep from the next time lies in the past: a slow sweep elsewhere leaves no lease unseen', async () => {
  const { sweptUntil } = await sweepLeases(bench.worker.pool, '-infinity');
  const { rows } = await bench.db.pool.query(
    `SELECT madrugada.now() - $1::timestamptz > interval '30 seconds' AS past`,
    [sweptUntil],
  );
  expect(rows).toEqual([{ past: true }]);
});

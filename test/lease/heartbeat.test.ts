import { expect, test } from 'vitest';
import type { Lease } from '../../src/journal/lease.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { release, takeAway } from '../support/leases.ts';
import { moveClock } from '../support/move-clock.ts';

const bench = leaseBench();

/** One heartbeat, as a worker's thread sends it, for tasks that advance; the leases it is told it has lost, as `task/token`. */
async function beat(workerId: number, leases: Pick<Lease, 'taskId' | 'token'>[], advancing = true): Promise<string[]> {
  const { rows } = await bench.worker.pool.query<{ lost: string }>(
    `SELECT lost_task || '/' || lost_token AS lost FROM madrugada.heartbeat($1, $2, $3, $4)`,
    [workerId, leases.map(({ taskId }) => taskId), leases.map(({ token }) => token), leases.map(() => advancing)],
  );
  return rows.map(({ lost }) => lost);
}

interface Held {
  slot: string | null;
  workerId: number | null;
  token: number;
  expiresAt: Date | null;
}

async function heldBy(taskId: number): Promise<Held> {
  const { rows } = await bench.db.pool.query<Held>(
    `SELECT slot, worker_id AS "workerId", lease_token AS token, lease_expires_at AS "expiresAt" FROM madrugada.task WHERE id = $1`,
    [taskId],
  );
  const [row] = rows;
  if (row === undefined) throw new Error(`no task ${taskId}`);
  return row;
}

/** Seconds by which a heartbeat changes a lease. */
async function extension(taskId: number, beating: () => Promise<unknown>): Promise<number> {
  const before = (await heldBy(taskId)).expiresAt?.getTime() ?? Number.NaN;
  await beating();
  return ((await heldBy(taskId)).expiresAt?.getTime() ?? Number.NaN) / 1000 - before / 1000;
}

test('a heartbeat extends the holder’s lease to its whole length', async () => {
  const { lease } = await bench.worker.claim(await loadTestBatch(bench.db));
  await moveClock(bench.db, '5 minutes');
  const seconds = await extension(lease.taskId, () => beat(bench.worker.id, [lease]));
  await moveClock(bench.db, '-5 minutes');
  expect(seconds).toBeCloseTo(300, -1);
});

test('a heartbeat writes no task while less than a third of its lease has run', async () => {
  const { lease } = await bench.worker.claim(await loadTestBatch(bench.db));
  await moveClock(bench.db, '3 minutes');
  const seconds = await extension(lease.taskId, () => beat(bench.worker.id, [lease]));
  await moveClock(bench.db, '-3 minutes');
  expect(seconds).toBe(0);
});

test('a heartbeat does not extend the lease of a task that stands still', async () => {
  const { lease } = await bench.worker.claim(await loadTestBatch(bench.db));
  await moveClock(bench.db, '5 minutes');
  const seconds = await extension(lease.taskId, () => beat(bench.worker.id, [lease], false));
  await moveClock(bench.db, '-5 minutes');
  expect(seconds).toBe(0);
});

test('a worker is told of the lost lease of a task that stands still: its slot must not wait for ever', async () => {
  const { lease } = await bench.worker.claim(await loadTestBatch(bench.db));
  expect(await beat(bench.worker.id, [lease], false)).toEqual([]);
  await takeAway(bench.db, lease.taskId);
  expect(await beat(bench.worker.id, [lease], false)).toEqual([`${lease.taskId}/1`]);
});

test('of two leases of one task that slots of one process remember, the older is said to be lost, and the newer is not', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  await takeAway(bench.db, lease.taskId);
  const { lease: newer } = await bench.worker.claim(batch);
  expect(await beat(bench.worker.id, [lease, newer])).toEqual([`${lease.taskId}/1`]);
});

test('a late heartbeat does not steal a lease back that has gone to another worker', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  await takeAway(bench.db, lease.taskId);
  const taker = await bench.workers.add();
  await taker.claim(batch);
  const held = await heldBy(lease.taskId);
  await moveClock(bench.db, '5 minutes');
  const lost = await beat(bench.worker.id, [lease]);
  await moveClock(bench.db, '-5 minutes');

  expect(lost).toEqual([`${lease.taskId}/1`]);
  expect(await heldBy(lease.taskId)).toEqual(held);
  expect(held.workerId).toBe(taker.id);
});

test('a heartbeat under an old token extends nothing, though the same worker holds the task again', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  await release(bench.db, lease);
  await bench.worker.claim(batch);
  await moveClock(bench.db, '5 minutes');
  let lost: string[] = [];
  const seconds = await extension(lease.taskId, async () => {
    lost = await beat(bench.worker.id, [lease]);
  });
  await moveClock(bench.db, '-5 minutes');
  expect([seconds, lost]).toEqual([0, [`${lease.taskId}/1`]]);
});

test('a stale process under the slot’s name extends nothing of its successor: a lease is the worker’s, not the name’s', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  const namesake = await bench.workers.add();
  await moveClock(bench.db, '5 minutes');
  let lost: string[] = [];
  const seconds = await extension(lease.taskId, async () => {
    lost = await beat(namesake.id, [lease]);
  });
  await moveClock(bench.db, '-5 minutes');
  expect([seconds, lost]).toEqual([0, [`${lease.taskId}/1`]]);
});

test('a heartbeat for a task that was given back does not claim it', async () => {
  const { lease } = await bench.worker.claim(await loadTestBatch(bench.db));
  await takeAway(bench.db, lease.taskId);
  expect(await beat(bench.worker.id, [lease])).toEqual([`${lease.taskId}/1`]);
  expect(await heldBy(lease.taskId)).toMatchObject({ slot: null, expiresAt: null });
});

test('a worker’s heartbeat is written down, whatever it holds', async () => {
  const silentSince = async () => {
    const { rows } = await bench.db.pool.query('SELECT heartbeat_at FROM madrugada.worker WHERE id = $1', [
      bench.worker.id,
    ]);
    return rows[0].heartbeat_at as Date;
  };
  const before = await silentSince();
  await beat(bench.worker.id, []);
  expect((await silentSince()).getTime()).toBeGreaterThan(before.getTime());
});

test('a worker that has ended has no heartbeat any more', async () => {
  const ended = await bench.workers.add();
  await ended.leave();
  const { rows } = await bench.db.pool.query('SELECT heartbeat_at FROM madrugada.worker WHERE id = $1', [ended.id]);
  await beat(ended.id, []);
  const { rows: later } = await bench.db.pool.query('SELECT heartbeat_at FROM madrugada.worker WHERE id = $1', [
    ended.id,
  ]);
  expect(later).toEqual(rows);
});

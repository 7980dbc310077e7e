import { expect, test } from 'vitest';
import type { Lease } from '../../src/journal/lease.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { release, takeAway } from '../support/leases.ts';
import { moveClock } from '../support/move-clock.ts';

const bench = leaseBench();

/** One heartbeat, as a worker's thread sends it; the tasks it is told it has lost. */
async function beat(workerId: number, leases: Pick<Lease, 'taskId' | 'token'>[]): Promise<number[]> {
  const { rows } = await bench.worker.pool.query<{ lost: number }>('SELECT madrugada.heartbeat($1, $2, $3) AS lost', [
    workerId,
    leases.map(({ taskId }) => taskId),
    leases.map(({ token }) => token),
  ]);
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

test('a heartbeat extends only the leases it names: those of tasks that advance', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 });
  const [advancing, stuck] = [await bench.worker.claim(batch), await bench.worker.claim(batch)];
  await moveClock(bench.db, '5 minutes');
  const seconds = await extension(stuck.lease.taskId, () => beat(bench.worker.id, [advancing.lease]));
  await moveClock(bench.db, '-5 minutes');
  expect(seconds).toBe(0);
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

  expect(lost).toEqual([lease.taskId]);
  expect(await heldBy(lease.taskId)).toEqual(held);
  expect(held.workerId).toBe(taker.id);
});

test('a heartbeat under an old token extends nothing, though the same worker holds the task again', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  await release(bench.db, lease);
  await bench.worker.claim(batch);
  await moveClock(bench.db, '5 minutes');
  let lost: number[] = [];
  const seconds = await extension(lease.taskId, async () => {
    lost = await beat(bench.worker.id, [lease]);
  });
  await moveClock(bench.db, '-5 minutes');
  expect([seconds, lost]).toEqual([0, [lease.taskId]]);
});

test('a stale process under the slot’s name extends nothing of its successor: a lease is the worker’s, not the name’s', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  const namesake = await bench.workers.add();
  await moveClock(bench.db, '5 minutes');
  let lost: number[] = [];
  const seconds = await extension(lease.taskId, async () => {
    lost = await beat(namesake.id, [lease]);
  });
  await moveClock(bench.db, '-5 minutes');
  expect([seconds, lost]).toEqual([0, [lease.taskId]]);
});

test('a heartbeat for a task that was given back does not claim it', async () => {
  const { lease } = await bench.worker.claim(await loadTestBatch(bench.db));
  await takeAway(bench.db, lease.taskId);
  expect(await beat(bench.worker.id, [lease])).toEqual([lease.taskId]);
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

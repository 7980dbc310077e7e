import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { type ProcessIdentity, thisProcess } from '../../src/lease/process-identity.ts';
import { Reaper } from '../../src/worker/reaper.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { claimFor, registerRow } from '../support/leases.ts';

const bench = leaseBench();
const GONE = 4_194_305; // no process can have this number

/** A task that a worker of that identity holds, after one round of another worker's reaper. */
async function afterReaping(identity: Partial<ProcessIdentity>): Promise<string> {
  const batch = await loadTestBatch(bench.db);
  await claimFor(bench.db, await registerRow(bench.db, identity), batch);
  await new Reaper(bench.worker.pool, bench.worker.id).reap();
  return (await taskOf(bench.db, batch)).state;
}

test('a reaper gives back what the dead of its own host held', async () => {
  expect(await afterReaping({ pid: GONE })).toBe('pending');
});

test('a reaper takes nothing from the living', async () => {
  expect(await afterReaping({})).toBe('running');
});

test('a reaper takes nothing from a frozen process', async () => {
  const child = spawn('cat');
  await once(child, 'spawn');
  child.kill('SIGSTOP');
  expect(await afterReaping({ pid: child.pid ?? 0, pidStartedAt: 0 })).toBe('running');
  child.kill('SIGKILL');
});

test('a reaper does not judge other hosts', async () => {
  expect(await afterReaping({ pid: GONE, host: 'another/pid:[1]' })).toBe('running');
});

test('a reaper gives back what a machine held before it was restarted', async () => {
  const [machine] = thisProcess().host.split('/');
  expect(await afterReaping({ host: `${machine}/pid:[1]`, bootId: 'earlier' })).toBe('pending');
});

test('a reaper does not bury its own worker', async () => {
  const batch = await loadTestBatch(bench.db);
  const own = await registerRow(bench.db, { pid: GONE }); // another's number for it: a container that does not see itself as others do
  await claimFor(bench.db, own, batch);
  await new Reaper(bench.worker.pool, own).reap();
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('a reaper says how much went back', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 });
  const reaper = new Reaper(bench.worker.pool, bench.worker.id);
  await reaper.reap();
  await claimFor(bench.db, await registerRow(bench.db, { pid: GONE }), batch);
  expect([await reaper.reap(), await reaper.reap()]).toEqual([1, 0]);
});

import { expect, inject, test } from 'vitest';
import { releaseUnknownClaims, sweepLeases } from '../../src/lease/reclaim.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf, taskEvents } from '../support/audit.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { claimFor, registerRow } from '../support/leases.ts';
import { moveClock } from '../support/move-clock.ts';
import { openTransaction } from '../support/open-transaction.ts';

const bench = leaseBench();

/** A task claimed by a worker of which only its rows are left. */
async function abandoned() {
  const batch = await loadTestBatch(bench.db);
  const workerId = await registerRow(bench.db);
  return { batch, workerId, lease: await claimFor(bench.db, workerId, batch) };
}

/** A sweep that many seconds after the last heartbeat of all. */
async function sweepAfter(seconds: number): Promise<void> {
  await moveClock(bench.db, `${seconds} seconds`);
  await sweepLeases(bench.worker.pool, '-infinity');
  await moveClock(bench.db, `-${seconds} seconds`);
}

/** Holds a slot's lock, as the connection of a worker's living process does, until the test ends. */
async function lockSlot(slot: string, workerId: number): Promise<void> {
  const { client } = await openTransaction(bench.db);
  await client.query(`SET LOCAL application_name = 'madrugada/w${workerId}/slots'`);
  await client.query('SELECT pg_advisory_xact_lock(madrugada.slot_lock_class(), madrugada.slot_lock_key($1))', [slot]);
}

test('a free lock alone does not release: a worker whose heartbeat is fresh keeps its task', async () => {
  const { batch } = await abandoned();
  await sweepAfter(9);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('an old heartbeat alone does not release: a worker that holds its slot’s lock keeps its task', async () => {
  const { batch, lease, workerId } = await abandoned();
  await lockSlot(lease.slot, workerId);
  await sweepAfter(300);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('a free lock and a heartbeat older than ten seconds release a task, long before its lease runs out', async () => {
  const { batch, lease } = await abandoned();
  await sweepAfter(11);
  expect((await taskOf(bench.db, batch)).state).toBe('pending');
  expect((await taskEvents(bench.db, batch)).at(-1)).toMatchObject({
    event: 'resumed',
    slot: lease.slot,
    reason: 'its worker is silent and has lost its slot',
  });
});

test('another slot’s lock does not keep a task', async () => {
  const { batch, workerId } = await abandoned();
  await lockSlot('somebody else', workerId);
  await sweepAfter(11);
  expect((await taskOf(bench.db, batch)).state).toBe('pending');
});

test('a successor’s lock under the same name does not keep a silent worker’s task: a slot gets back what its name had', async () => {
  const { batch, lease } = await abandoned();
  await lockSlot(lease.slot, bench.worker.id);
  await sweepAfter(11);
  expect((await taskOf(bench.db, batch)).state).toBe('pending');
});

test('a slot’s lock in another database does not keep a task', async () => {
  const { batch, lease, workerId } = await abandoned();
  const { rows } = await bench.db.pool.query(
    `SELECT madrugada.slot_lock_class() AS class, madrugada.slot_lock_key($1) AS key`,
    [lease.slot],
  );
  const elsewhere = await openClient({ url: inject('serverUrl'), applicationName: `madrugada/w${workerId}/slots` });
  await elsewhere.query('SELECT pg_advisory_lock($1, $2)', [rows[0].class, rows[0].key]);
  await sweepAfter(11);
  await elsewhere.end();
  expect((await taskOf(bench.db, batch)).state).toBe('pending');
});

test('silence settles no doubt: the silent worker is not dead, and its dispatches are not said to be over', async () => {
  const { workerId } = await abandoned();
  await sweepAfter(11);
  const { rows } = await bench.db.pool.query('SELECT ended_at FROM madrugada.worker WHERE id = $1', [workerId]);
  expect(rows).toEqual([{ ended_at: null }]);
});

test('a claim whose commit its worker did not see is given back before the next, without using up an attempt', async () => {
  const { batch, lease, workerId } = await abandoned();
  await releaseUnknownClaims(bench.worker.pool, lease.slot, workerId, []);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0 });
  expect(await attemptsOf(bench.db, batch)).toMatchObject([
    { ending: 'released', error: 'claimed, but the commit was not seen' },
  ]);
});

test('a claim that its worker knows of is not given back', async () => {
  const { batch, lease, workerId } = await abandoned();
  await releaseUnknownClaims(bench.worker.pool, lease.slot, workerId, [lease.taskId]);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('neither another slot’s claims nor a namesake’s are given back', async () => {
  const { batch, lease, workerId } = await abandoned();
  await releaseUnknownClaims(bench.worker.pool, 'another slot', workerId, []);
  await releaseUnknownClaims(bench.worker.pool, lease.slot, bench.worker.id, []);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('an attempt that hung past its lease is not given back as unseen, and so counts: it is the sweep’s', async () => {
  const { batch, lease, workerId } = await abandoned();
  await moveClock(bench.db, '11 minutes');
  await releaseUnknownClaims(bench.worker.pool, lease.slot, workerId, []);
  await moveClock(bench.db, '-11 minutes');
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { busySlots, failedTasks, recentRefusals, stopInForce, waitingTasks } from '../../src/batch/status.ts';
import type { Lease } from '../../src/journal/lease.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch, type TestWorker, TestWorkers } from '../support/attempts.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { moveClock } from '../support/move-clock.ts';

let db: TestDatabase;
let workers: TestWorkers;
let worker: TestWorker;
beforeAll(async () => {
  db = await createTestDatabase();
  workers = new TestWorkers(db, 'http://127.0.0.1:9'); // no test sends anything
  worker = await workers.add();
});
afterAll(async () => {
  await workers.closeAll();
  await db.drop();
});

/** Ends an attempt in the given way. */
async function end(lease: Lease, how: 'parked' | 'failed', waitUntil = '-infinity', waitFor?: string): Promise<void> {
  await db.pool.query(
    `SELECT madrugada.end_attempt($1, $2, $3, $4, '{"message": "cannot be answered"}', $5, $6, $7, 0)`,
    [lease.taskId, worker.id, lease.token, how, how === 'failed', waitUntil, waitFor],
  );
}

/** Calls 1 to `count` are sent, and no answer has come. */
async function recordIntents({ batchKey, taskId, workerId, slot, token }: Lease, count: number): Promise<void> {
  await db.pool.query(
    `INSERT INTO madrugada.call_intent (batch_key, task_id, seq, dispatch, scope, request_sha256, occurrence, attempt, worker_id, slot, lease_token,
       after_no, method, path, request, tag, deadline_at)
     SELECT $1, $2, seq, 1, '', sha256(''), seq, $5, $3, $4, $5, 0, 'POST', '/v1/messages', '', 'tag ' || seq, madrugada.now() + interval '1 minute'
       FROM generate_series(1, $6) seq`,
    [batchKey, taskId, workerId, slot, token, count],
  );
}

async function recordRefusal(batch: string, seq: number, status: number, error: string): Promise<void> {
  await db.pool.query(
    `INSERT INTO madrugada.call_outcome (batch_key, task_id, seq, dispatch, kind, status, error, answers) VALUES ($1, 1, $2, 1, 'refused', $3, $4, false)`,
    [batch, seq, status, error],
  );
}

test('a busy slot is shown with its task, its lease and the last call of this attempt', async () => {
  const batch = await loadTestBatch(db);
  const { task, lease } = await worker.claim(batch);
  expect(await busySlots(db.pool, batch)).toMatchObject([
    { slot: worker.slot, batchKey: batch, task: task.key, attempt: 1, lastCall: null, heartbeatAt: expect.any(Date) },
  ]);
  await recordIntents(lease, 3);
  expect(await busySlots(db.pool, batch)).toMatchObject([{ lastCall: 3 }]);
});

test('without a batch the busy slots of all batches are shown', async () => {
  const batches = [await loadTestBatch(db), await loadTestBatch(db)];
  for (const batch of batches) await worker.claim(batch);
  const shown = (await busySlots(db.pool)).map(({ batchKey }) => batchKey);
  expect(shown).toEqual(expect.arrayContaining(batches));
});

test('waiting tasks are counted by what they wait for, with the next time that frees one by itself', async () => {
  const batch = await loadTestBatch(db, { tasks: 4, doubtPolicy: 'hold' });
  const [first, second, third] = [await worker.claim(batch), await worker.claim(batch), await worker.claim(batch)];
  await end(first.lease, 'parked', '2099-02-01', 'refusal');
  await end(second.lease, 'parked', '2099-01-01', 'refusal');
  await recordIntents(third.lease, 1);
  await end(third.lease, 'parked', 'infinity', 'settlement');
  expect(await waitingTasks(db.pool, batch)).toEqual([
    { waitingFor: 'refusal', tasks: 2, until: new Date('2099-01-01T00:00:00Z') },
    { waitingFor: 'settlement', tasks: 1, until: null },
  ]);
});

test('failed tasks are shown in the order of the batch with what went wrong', async () => {
  const batch = await loadTestBatch(db, { tasks: 2 });
  const [first, second] = [await worker.claim(batch), await worker.claim(batch)];
  await end(second.lease, 'failed');
  await end(first.lease, 'failed');
  const [id, version] = batch.split(':');
  const client = await openClient({ url: db.url, applicationName: 'madrugada test' });
  await client.query('SET enable_indexscan = off; SET enable_bitmapscan = off'); // no order comes by chance
  expect(await failedTasks(client, batch)).toEqual([
    { key: `${id}:1:${version}`, message: 'cannot be answered' },
    { key: `${id}:2:${version}`, message: 'cannot be answered' },
  ]);
  await client.end();
});

test('refusals of the last ten minutes are counted by status and reason, the most frequent first', async () => {
  const batch = await loadTestBatch(db);
  await recordRefusal(batch, 1, 500, 'long ago');
  await moveClock(db, '11 minutes');
  await recordRefusal(batch, 2, 429, 'rate limit');
  await recordRefusal(batch, 3, 529, 'overloaded');
  await recordRefusal(batch, 4, 529, 'overloaded');
  expect(await recentRefusals(db.pool, batch)).toEqual([
    { status: 529, error: 'overloaded', dispatches: 2 },
    { status: 429, error: 'rate limit', dispatches: 1 },
  ]);
});

test('the reason of a stop of everything is shown until it is lifted', async () => {
  expect(await stopInForce(db.pool)).toBeUndefined();
  await db.pool.query(`SELECT madrugada.stop_everything('the bill looks wrong')`);
  expect(await stopInForce(db.pool)).toBe('the bill looks wrong');
  await db.pool.query(
    `BEGIN; SET LOCAL madrugada.by = 'ana'; SET LOCAL madrugada.reason = 'it was right'; SELECT madrugada.lift_stop(); COMMIT`,
  );
  expect(await stopInForce(db.pool)).toBeUndefined();
});

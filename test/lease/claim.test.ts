import { afterAll, beforeAll, expect, test } from 'vitest';
import { claimTask, nextClaimableAt } from '../../src/lease/claim.ts';
import { completeTask } from '../../src/lease/finish.ts';
import { loadTestBatch, type TestWorker, TestWorkers, taskOf } from '../support/attempts.ts';
import { attemptsOf, taskEvents } from '../support/audit.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { release } from '../support/leases.ts';
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

test('a claim gives the task, its first lease token and the lease’s length by the database clock', async () => {
  const batch = await loadTestBatch(db, { leaseSeconds: 77, agentOptions: { model: 'm' } });
  const { task } = await worker.claim(batch);
  const { rows } = await db.pool.query(
    `SELECT state, slot, worker_id, lease_token, attempts, lease_expires_at - first_claimed_at AS lease FROM madrugada.task WHERE id = $1`,
    [task.taskId],
  );

  expect(task).toMatchObject({ key: `${batch.replace(':', ':1:')}`, leaseToken: 1, agentOptions: { model: 'm' } });
  expect(rows).toMatchObject([
    { state: 'running', slot: worker.slot, worker_id: worker.id, lease_token: 1, attempts: 1 },
  ]);
  expect(rows[0].lease).toMatchObject({ minutes: 1, seconds: 17 });
});

test('a claim leaves one attempt and one audit row', async () => {
  const batch = await loadTestBatch(db);
  await worker.claim(batch);

  expect(await attemptsOf(db, batch)).toMatchObject([
    { number: 1, slot: worker.slot, workerId: worker.id, ending: null },
  ]);
  expect(await taskEvents(db, batch)).toMatchObject([
    { event: 'claimed', slot: worker.slot, workerId: worker.id, token: 1 },
  ]);
});

test('task, attempt and audit row of a claim are written in one transaction', async () => {
  const batch = await loadTestBatch(db);
  const client = await db.pool.connect();
  await client.query('BEGIN');
  await client.query('SELECT FROM madrugada.claim_task($1, $2, $3, $4, 0)', [batch, worker.slot, worker.id, 'sha']);
  await client.query('ROLLBACK'); // what a crash amounts to
  client.release();

  expect((await taskOf(db, batch)).state).toBe('pending');
  expect(await attemptsOf(db, batch)).toEqual([]);
  expect(await taskEvents(db, batch)).toEqual([]);
});

test('slots that claim at the same moment get different tasks, and all of them', async () => {
  const batch = await loadTestBatch(db, { tasks: 40 });
  const fleet = await Promise.all(Array.from({ length: 4 }, () => workers.add()));
  const claims = await Promise.all(fleet.flatMap((one) => Array.from({ length: 12 }, () => one.tryClaim(batch))));
  const claimed = claims.flatMap((task) => (task ? [task.position] : []));
  // a claim passes over a row that another is claiming and may miss the one behind it
  for (let more = await worker.tryClaim(batch); more; more = await worker.tryClaim(batch)) claimed.push(more.position);

  expect(claimed.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, n) => n + 1));
  expect((await attemptsOf(db, batch)).length).toBe(40);
});

test('a claim does not wait for another that is under way: it takes the next task', async () => {
  const batch = await loadTestBatch(db, { tasks: 2 });
  const other = await db.pool.connect();
  await other.query('BEGIN');
  await other.query('SELECT FROM madrugada.claim_task($1, $2, $3, $4, 0)', [batch, 'other', worker.id, 'sha']);
  const { task } = await worker.claim(batch);
  const third = await worker.tryClaim(batch);
  await other.query('COMMIT');
  other.release();

  expect(task.position).toBe(2);
  expect(third).toBeUndefined();
});

test('a task given back comes before fresh ones, under a higher token', async () => {
  const batch = await loadTestBatch(db, { tasks: 3 });
  const { lease } = await worker.claim(batch);
  await release(db, lease);
  const { task } = await worker.claim(batch);

  expect(task).toMatchObject({ position: 1, leaseToken: 2 });
});

test('a task that waits for a moment is not claimed before it, and is from then on', async () => {
  const batch = await loadTestBatch(db);
  const { lease } = await worker.claim(batch);
  await release(db, lease, { waitMs: 60_000 });
  const [before, at] = [await worker.tryClaim(batch), await nextClaimableAt(worker.pool, batch)];
  await moveClock(db, '2 minutes');
  const after = await worker.tryClaim(batch);
  await moveClock(db, '-2 minutes');

  expect([before, after?.position]).toEqual([undefined, 1]);
  expect(at).toBeInstanceOf(Date);
});

test('a task that waits for an event is never claimable by time alone', async () => {
  const batch = await loadTestBatch(db);
  const { lease } = await worker.claim(batch);
  await db.pool.query(
    `UPDATE madrugada.task SET state = 'pending', slot = NULL, worker_id = NULL, lease_expires_at = NULL,
    not_before = 'infinity', waiting_for = 'settlement' WHERE id = $1`,
    [lease.taskId],
  );
  await moveClock(db, '10 years');
  const claimed = await worker.tryClaim(batch);
  await moveClock(db, '-10 years');

  expect(claimed).toBeUndefined();
  expect(await nextClaimableAt(worker.pool, batch)).toBeUndefined();
});

test('nothing is claimed from a batch that is stopped', async () => {
  const batch = await loadTestBatch(db);
  await db.pool.query('SELECT madrugada.stop_batch($1, $2)', [batch, 'by the test']);
  expect(await worker.tryClaim(batch)).toBeUndefined();
});

test('nothing is claimed while everything is stopped', async () => {
  const batch = await loadTestBatch(db);
  await db.pool.query(`SELECT madrugada.stop_everything('by the test')`);
  const whileStopped = await worker.tryClaim(batch);
  await db.pool.query('SELECT madrugada.lift_stop()');

  expect(whileStopped).toBeUndefined();
  expect(await worker.tryClaim(batch)).toBeDefined();
});

test('a completed task is not claimed again', async () => {
  const batch = await loadTestBatch(db);
  const { lease } = await worker.claim(batch);
  await completeTask(worker.pool, { taskId: lease.taskId, workerId: worker.id, leaseToken: lease.token }, 'answer', 0);
  expect(await worker.tryClaim(batch)).toBeUndefined();
});

test('a claim knows which agent the attempt before it ran', async () => {
  const batch = await loadTestBatch(db);
  const claim = (agentSha256: string) =>
    claimTask(worker.pool, { batchKey: batch, slot: worker.slot, workerId: worker.id, agentSha256, after: 0 });
  const first = await claim('one');
  await release(db, { taskId: first?.taskId ?? 0, workerId: worker.id, token: 1 });

  expect(first?.previousAgentSha256).toBeNull();
  expect((await claim('two'))?.previousAgentSha256).toBe('one');
});

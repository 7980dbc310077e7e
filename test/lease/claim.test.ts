import { expect, test } from 'vitest';
import { claimTask, nextClaimableAt } from '../../src/lease/claim.ts';
import { liftStop } from '../support/as-person.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf, taskEvents } from '../support/audit.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { completeTask, release } from '../support/leases.ts';
import { moveClock } from '../support/move-clock.ts';
import { openTransaction } from '../support/open-transaction.ts';

const bench = leaseBench();

test('a claim gives the task, its first lease token and the lease’s length by the database clock', async () => {
  const batch = await loadTestBatch(bench.db, { leaseSeconds: 77, agentOptions: { model: 'm' } });
  const { task } = await bench.worker.claim(batch);
  const { rows } = await bench.db.pool.query(
    `SELECT state, slot, worker_id, lease_token, attempts, lease_expires_at - first_claimed_at AS lease FROM madrugada.task WHERE id = $1`,
    [task.taskId],
  );

  expect(task).toMatchObject({ key: `${batch.replace(':', ':1:')}`, leaseToken: 1, agentOptions: { model: 'm' } });
  expect(rows).toMatchObject([
    { state: 'running', slot: bench.worker.slot, worker_id: bench.worker.id, lease_token: 1, attempts: 1 },
  ]);
  expect(rows[0].lease).toMatchObject({ minutes: 1, seconds: 17 });
});

test('a claim leaves one attempt and one audit row', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.worker.claim(batch);

  expect(await attemptsOf(bench.db, batch)).toMatchObject([
    { number: 1, slot: bench.worker.slot, workerId: bench.worker.id, ending: null },
  ]);
  expect(await taskEvents(bench.db, batch)).toMatchObject([
    { event: 'claimed', slot: bench.worker.slot, workerId: bench.worker.id, token: 1 },
  ]);
});

test('task, attempt and audit row of a claim are written in one transaction', async () => {
  const batch = await loadTestBatch(bench.db);
  const claiming = await openTransaction(bench.db);
  await claiming.client.query('SELECT FROM madrugada.claim_task($1, $2, $3, $4, 0)', [
    batch,
    bench.worker.slot,
    bench.worker.id,
    'sha',
  ]);
  await claiming.rollback();

  expect((await taskOf(bench.db, batch)).state).toBe('pending');
  expect(await attemptsOf(bench.db, batch)).toEqual([]);
  expect(await taskEvents(bench.db, batch)).toEqual([]);
});

test('slots that claim at the same moment get different tasks, and all of them', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 40 });
  const fleet = await Promise.all(Array.from({ length: 4 }, () => bench.workers.add()));
  const claims = await Promise.all(fleet.flatMap((one) => Array.from({ length: 12 }, () => one.tryClaim(batch))));
  const claimed = claims.flatMap((task) => (task ? [task.position] : []));
  // a claim passes over a row that another is claiming and may miss the one behind it
  for (let more = await bench.worker.tryClaim(batch); more; more = await bench.worker.tryClaim(batch))
    claimed.push(more.position);

  expect(claimed.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, n) => n + 1));
  expect((await attemptsOf(bench.db, batch)).length).toBe(40);
});

test('a claim does not wait for another that is under way: it takes the next task', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 });
  const other = await openTransaction(bench.db);
  await other.client.query('SELECT FROM madrugada.claim_task($1, $2, $3, $4, 0)', [
    batch,
    'other',
    bench.worker.id,
    'sha',
  ]);
  const { task } = await bench.worker.claim(batch);
  const third = await bench.worker.tryClaim(batch);
  await other.commit();

  expect(task.position).toBe(2);
  expect(third).toBeUndefined();
});

test('a task given back comes before fresh ones, under a higher token', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 3 });
  const { lease } = await bench.worker.claim(batch);
  await release(bench.db, lease);
  const { task } = await bench.worker.claim(batch);

  expect(task).toMatchObject({ position: 1, leaseToken: 2 });
});

test('a task that waits for a moment is not claimed before it, and is from then on', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  await release(bench.db, lease, { waitMs: 60_000 });
  const [before, at] = [await bench.worker.tryClaim(batch), await nextClaimableAt(bench.worker.pool, batch)];
  await moveClock(bench.db, '2 minutes');
  const after = await bench.worker.tryClaim(batch);
  await moveClock(bench.db, '-2 minutes');

  expect([before, after?.position]).toEqual([undefined, 1]);
  expect(at).toBeInstanceOf(Date);
});

test('a task that waits for an event is never claimable by time alone', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  await bench.db.pool.query(
    `UPDATE madrugada.task SET state = 'pending', slot = NULL, worker_id = NULL, lease_expires_at = NULL,
    not_before = 'infinity', waiting_for = 'settlement' WHERE id = $1`,
    [lease.taskId],
  );
  await moveClock(bench.db, '10 years');
  const claimed = await bench.worker.tryClaim(batch);
  await moveClock(bench.db, '-10 years');

  expect(claimed).toBeUndefined();
  expect(await nextClaimableAt(bench.worker.pool, batch)).toBeUndefined();
});

test('nothing is claimed from a batch that is stopped', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.db.pool.query('SELECT madrugada.stop_batch($1, $2)', [batch, 'by the test']);
  expect(await bench.worker.tryClaim(batch)).toBeUndefined();
});

test('nothing is claimed while everything is stopped', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.db.pool.query(`SELECT madrugada.stop_everything('by the test')`);
  const whileStopped = await bench.worker.tryClaim(batch);
  await liftStop(bench.db);

  expect(whileStopped).toBeUndefined();
  expect(await bench.worker.tryClaim(batch)).toBeDefined();
});

test('a completed task is not claimed again', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  await completeTask(
    bench.worker.pool,
    { taskId: lease.taskId, workerId: bench.worker.id, leaseToken: lease.token },
    'answer',
    0,
  );
  expect(await bench.worker.tryClaim(batch)).toBeUndefined();
});

test('a claim knows which agent the attempt before it ran', async () => {
  const batch = await loadTestBatch(bench.db);
  const claim = (agentSha256: string) =>
    claimTask(bench.worker.pool, {
      batchKey: batch,
      slot: bench.worker.slot,
      workerId: bench.worker.id,
      agentSha256,
      after: 0,
    });
  const first = await claim('one');
  await release(bench.db, { taskId: first?.taskId ?? 0, workerId: bench.worker.id, token: 1 });

  expect(first?.previousAgentSha256).toBeNull();
  expect((await claim('two'))?.previousAgentSha256).toBe('one');
});

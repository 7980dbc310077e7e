import { expect, test } from 'vitest';
import type { Lease } from '../../src/journal/lease.ts';
import { kindsOf, loadTestBatch, type TestWorker, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { completeTask } from '../support/leases.ts';
import { moveClock } from '../support/move-clock.ts';

const bench = journalBench();

/** Takes the task away from its holder, as a sweep does. */
async function takeAway(lease: Lease): Promise<void> {
  await bench.db.pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [lease.taskId, 'by the test']);
}

/** Runs an attempt that does `meanwhile` after its first answer, and then asks again. */
async function askAround(worker: TestWorker, batch: string, meanwhile: (lease: Lease) => Promise<unknown>) {
  const { task, lease } = await worker.claim(batch);
  const attempt = worker.run(task, lease, async (task) => {
    await ask(task, 'one');
    await meanwhile(lease);
    return ask(task, 'two');
  });
  return attempt.result;
}

test('a holder whose lease was taken away and given to another writes no intent and sends nothing', async () => {
  const batch = await loadTestBatch(bench.db);
  const [stale, other] = [await bench.workers.add(), await bench.workers.add()];
  const result = await askAround(stale, batch, async (lease) => {
    await takeAway(lease);
    await other.claim(batch);
  });

  expect(result.ending).toBe('lost');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
  expect(bench.provider.requestCount).toBe(1);
});

test('a lease taken away and claimed again by the same worker is fenced by its token', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const result = await askAround(worker, batch, async (lease) => {
    await takeAway(lease);
    await worker.claim(batch);
  });

  expect(result.ending).toBe('lost');
  expect(bench.provider.requestCount).toBe(1);
});

test('another worker that knows the current token, such as a restored copy, writes no intent', async () => {
  const batch = await loadTestBatch(bench.db);
  const [holder, other] = [await bench.workers.add(), await bench.workers.add()];
  const { task, lease } = await holder.claim(batch);
  const attempt = other.run(task, { ...lease, workerId: other.id, slot: other.slot }, (task) => ask(task, 'one'));

  expect((await attempt.result).ending).toBe('lost');
  expect(await kindsOf(bench.db, batch)).toEqual([]);
  expect(bench.provider.requestCount).toBe(0);
});

test('a lease that has run out by the database’s clock lets nothing out, though nobody has taken the task yet', async () => {
  const batch = await loadTestBatch(bench.db, { leaseSeconds: 600 });
  const worker = await bench.workers.add();
  const result = await askAround(worker, batch, () => moveClock(bench.db, '601 seconds'));
  await moveClock(bench.db, '-601 seconds');

  expect(result.ending).toBe('lost');
  expect(bench.provider.requestCount).toBe(1);
});

test('a stale holder cannot complete the task, and its answer is not kept', async () => {
  const batch = await loadTestBatch(bench.db);
  const [stale, other] = [await bench.workers.add(), await bench.workers.add()];
  const { task, lease } = await stale.claim(batch);
  const attempt = stale.run(task, lease, async (task) => {
    const answer = await ask(task, 'one');
    await takeAway(lease);
    await other.claim(batch);
    return answer;
  });

  expect((await attempt.result).ending).toBe('lost');
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'running', result: null });
});

test('a worker that holds the task anew cannot complete it for its own former lease', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const { lease } = await worker.claim(batch);
  await takeAway(lease);
  await worker.claim(batch);
  const former = { taskId: lease.taskId, workerId: worker.id, leaseToken: lease.token };

  expect(await completeTask(worker.pool, former, 'stale', 0)).toBe(false);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('another worker cannot complete a task by knowing its token', async () => {
  const batch = await loadTestBatch(bench.db);
  const [holder, other] = [await bench.workers.add(), await bench.workers.add()];
  const { lease } = await holder.claim(batch);
  const holderByToken = { taskId: lease.taskId, workerId: other.id, leaseToken: lease.token };

  expect(await completeTask(other.pool, holderByToken, 'forged', 0)).toBe(false);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('a stale holder records no step: its successor’s code has not seen that value', async () => {
  const batch = await loadTestBatch(bench.db);
  const [stale, other] = [await bench.workers.add(), await bench.workers.add()];
  const { task, lease } = await stale.claim(batch);
  const attempt = stale.run(task, lease, async (task) => {
    await takeAway(lease);
    await other.claim(batch);
    return task.step('look up', () => 'stale');
  });

  expect((await attempt.result).ending).toBe('lost');
  const { rowCount } = await bench.db.pool.query('SELECT FROM madrugada.step_record WHERE batch_key = $1', [batch]);
  expect(rowCount).toBe(0);
});

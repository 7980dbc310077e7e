import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { retryTask } from '../../src/batch/retry-task.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { until } from '../support/until.ts';

const bench = journalBench();
const QUICK = { limits: { restMs: 50 } };

async function recordOne(batch: string): Promise<void> {
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    throw new Error('the program breaks here');
  });
}

test('a task that waits with records unused, and in which nothing moves, stops as diverged when the limit is over', async () => {
  const batch = await loadTestBatch(bench.db);
  await recordOne(batch);
  const worker = await bench.workers.add(QUICK);
  const result = await worker.attempt(batch, (task) => ask(task, 'other'));

  expect(result).toMatchObject({ ending: 'failed', isFinal: true });
  expect(result.message).toContain('nothing moved for 0.05 s');
  expect((await taskOf(bench.db, batch)).failure).toMatchObject({ kind: 'diverged', atRest: 'limit' });
  expect(bench.provider.requestCount).toBe(1);
});

test('a task whose step is still running is not at rest, however long the step takes', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add(QUICK);
  await worker.attempt(batch, async (task) => {
    void task.step('slow', () => new Promise(() => undefined));
    await ask(task, 'one');
    await ask(task, 'two');
    throw new Error('the program breaks here');
  });
  const result = await worker.attempt(batch, async (task) => {
    const start = performance.now();
    const longOver = () => performance.now() - start > 4 * QUICK.limits.restMs;
    const slow = task.step('slow', () => until('four limits are over', longOver));
    await ask(task, 'one');
    const fresh = ask(task, 'new'); // waits for 'two' to be used
    await until('four limits are over', longOver);
    await ask(task, 'two');
    await slow;
    return fresh;
  });

  expect(result.ending).toBe('completed');
});

test('a task without unused records may wait for a live answer longer than the rest limit', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add(QUICK);
  bench.provider.hold();
  const attempt = await worker.start(batch, (task) => ask(task, 'slow'));
  const exchange = await bench.provider.arrival(1);
  const start = performance.now();
  await until('four limits are over', () => performance.now() - start > 4 * QUICK.limits.restMs);
  exchange.message();

  expect((await attempt.result).ending).toBe('completed');
});

test('a task stopped by the rest limit is retried for free, without paying again from anywhere', async () => {
  const batch = await loadTestBatch(bench.db);
  await recordOne(batch);
  const worker = await bench.workers.add(QUICK);
  const stopped = await worker.attempt(batch, (task) => ask(task, 'other'));
  const operator = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  await retryTask(operator, batch.replace(':', ':1:'), { by: 'a person', reason: 'the machine was slow' });
  await operator.end();
  const again = await worker.attempt(batch, (task: Task) => ask(task, 'one'));

  expect(stopped.message).toContain('tries again for free');
  expect(again).toMatchObject({ ending: 'completed', replayedCalls: 1 });
  expect(bench.provider.requestCount).toBe(1);
});

test('a diverged task that a person orders to be paid again from a call replays what came before and pays the rest', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    await ask(task, 'two');
    throw new Error('the program breaks here');
  });
  const run = async (task: Task) => [await ask(task, 'one'), await ask(task, 'two, corrected')];
  const diverged = await (await bench.workers.add(QUICK)).attempt(batch, run);
  const operator = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  await retryTask(operator, batch.replace(':', ':1:'), { by: 'a person', reason: 'a better prompt' }, 2);
  await operator.end();
  const again = await worker.attempt(batch, run);

  expect(diverged.ending).toBe('failed');
  expect(again).toMatchObject({ ending: 'completed', replayedCalls: 1 });
  expect(bench.provider.exchanges.map((exchange) => exchange.prompt)).toEqual(['one', 'two', 'two, corrected']);
});

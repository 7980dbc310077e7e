import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { retryTask } from '../../src/batch/retry-task.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { until } from '../support/until.ts';

const bench = journalBench();
/** A body of so many characters is not read with the journal. */
const LARGE = 1_000_000;
const QUICK = { limits: { restMs: 50 } };

async function recordOne(batch: string): Promise<void> {
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    throw new Error('the program breaks here');
  });
}

async function recordTwo(batch: string): Promise<void> {
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    await ask(task, 'two');
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

/** Longer than a noisy machine takes for a few turns of the event loop. */
const UNHURRIED = { limits: { restMs: 500 } };

test('a task whose step is still running is not at rest, however long the step takes', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add(UNHURRIED);
  await worker.attempt(batch, async (task) => {
    void task.step('slow', () => new Promise(() => undefined));
    await ask(task, 'one');
    await ask(task, 'two');
    throw new Error('the program breaks here');
  });
  const result = await worker.attempt(batch, async (task) => {
    const start = performance.now();
    const longOver = until('three limits are over', () => performance.now() - start > 3 * UNHURRIED.limits.restMs);
    const slow = task.step('slow', () => longOver);
    await ask(task, 'one');
    const fresh = ask(task, 'new'); // waits for 'two' to be used
    await longOver;
    await ask(task, 'two');
    await slow;
    return fresh;
  });

  expect(result.ending).toBe('completed');
});

/** Nothing else happens in this process for so long. */
function block(ms: number): void {
  const start = performance.now();
  while (performance.now() - start < ms);
}

/** Lets everything run that is due, timers included. */
async function someTurns(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

test('a task is not at rest at the moment a step has ended: the limit counts from there', async () => {
  const batch = await loadTestBatch(bench.db);
  await recordTwo(batch);
  const worker = await bench.workers.add(UNHURRIED);
  const { writer } = worker.env;
  const write = writer.writeStep.bind(writer);
  const recorded = Promise.withResolvers<void>();
  writer.writeStep = async (row) => {
    const completed = await write(row);
    block(2 * UNHURRIED.limits.restMs); // the timer's time is over when the step ends
    recorded.resolve();
    return completed;
  };
  const result = await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    const fresh = ask(task, 'new');
    void task.step('short', () => 'done');
    await recorded.promise;
    await someTurns();
    await ask(task, 'two');
    return fresh;
  });

  expect(result.ending).toBe('completed');
});

test('a task whose recorded answer is still being read from the database is not at rest, however long that takes', async () => {
  const batch = await loadTestBatch(bench.db);
  bench.provider.script = (exchange) => exchange.message(exchange.prompt === 'large' ? 'x'.repeat(LARGE) : 'short');
  const recording = await bench.workers.add();
  await recording.attempt(batch, async (task) => {
    for (const prompt of ['one', 'large', 'two']) await ask(task, prompt);
    throw new Error('the program breaks here');
  });
  const worker = await bench.workers.add(QUICK);
  const table = await openTransaction(bench.db);
  const result = worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    await table.client.query('LOCK TABLE madrugada.call_outcome IN ACCESS EXCLUSIVE MODE');
    return ask(task, 'large').then(() => ask(task, 'two'));
  });
  await until('the answer is waited for', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'SELECT response FROM%'`,
    );
    return rows.length > 0;
  });
  const start = performance.now();
  await until('four limits are over', () => performance.now() - start > 4 * QUICK.limits.restMs);
  await table.commit();

  expect((await result).ending).toBe('completed');
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

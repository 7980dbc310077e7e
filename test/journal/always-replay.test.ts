import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, journalBench, question } from '../support/journal-bench.ts';

const bench = journalBench();

test('after every live answer the run is abandoned and replayed, and the task is still paid once', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ alwaysReplay: true });
  let runs = 0;
  const result = await worker.attempt(batch, async (task) => {
    runs += 1;
    return [await ask(task, 'one'), await ask(task, 'two'), await ask(task, 'three')];
  });

  expect(result).toMatchObject({ ending: 'completed', replayedCalls: 3 });
  expect(runs).toBe(4);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged', '2.1 charged', '3.1 charged']);
});

test('an agent with races, streams, steps and equal requests gives in this mode what it gives without', async () => {
  const agent = async (task: Task) => {
    const results: unknown[] = [];
    const stream = task.anthropic.messages.stream(question('stream'));
    results.push((await stream.finalMessage()).content);
    results.push(await Promise.all([ask(task, 'same'), ask(task, 'same'), task.step('local', () => 5)]));
    results.push(await task.scope('inner', (scoped) => ask(scoped, 'same')));
    const prompt = `${task.random()} at ${task.now().toISOString()}`;
    results.push((await ask(task, prompt)) === `answer to ${prompt}`);
    return results;
  };
  const plain = await loadTestBatch(bench.db);
  await (await bench.workers.add()).attempt(plain, agent);
  const replayed = await loadTestBatch(bench.db);
  const result = await (await bench.workers.add({ alwaysReplay: true })).attempt(replayed, agent);

  expect(result.ending).toBe('completed');
  expect((await taskOf(bench.db, replayed)).result).toEqual((await taskOf(bench.db, plain)).result);
  expect(bench.provider.requestCount).toBe(10);
});

test('a task whose calls come at once is replayed until all of them are recorded', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ alwaysReplay: true });
  const prompts = Array.from({ length: 12 }, (_, n) => `question ${n}`);
  const result = await worker.attempt(batch, (task) => Promise.all(prompts.map((prompt) => ask(task, prompt))));

  expect(result.ending).toBe('completed');
  expect(bench.provider.requestCount).toBe(12);
});

test('a refusal for good ends the task in this mode as in any other', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ alwaysReplay: true });
  bench.provider.script = (exchange) => exchange.refuse(400, 'invalid_request_error');
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result).toMatchObject({ ending: 'failed', isFinal: true });
  expect(bench.provider.requestCount).toBe(1);
});

import { expect, test } from 'vitest';
import { z } from 'zod';
import { type Agent, defineAgent } from '../../src/agent/define-agent.ts';
import { runAttempt } from '../../src/worker/run-attempt.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';

const bench = journalBench();

/** Runs an agent once on a task whose input is `{ question: "question 1" }`. */
async function attempt(agent: Agent, batchOptions = {}) {
  const batch = await loadTestBatch(bench.db, batchOptions);
  const worker = await bench.workers.add();
  const { task, lease } = await worker.claim(batch);
  const hooks = { onSession: () => undefined, onActivity: () => undefined };
  const access = { apiKey: 'dummy', baseUrl: bench.provider.url };
  const result = await runAttempt(worker.env, { agent, sha256: 'test' }, task, lease, access, hooks);
  return { result, task: await taskOf(bench.db, batch), claimed: task };
}

const anything = { input: z.unknown(), output: z.unknown() };

test('an answer that fits the schema completes the task, as the schema makes it', async () => {
  const output = z.object({ text: z.string().trim() });
  const { result, task } = await attempt(defineAgent({ ...anything, output, run: async () => ({ text: ' x ' }) }));

  expect(result.ending).toBe('completed');
  expect(task.result).toEqual({ text: 'x' });
});

test('an answer that does not fit fails the attempt, saying where', async () => {
  const output = z.object({ text: z.string() });
  const agent = { ...anything, output, run: async () => ({ text: 5 }) };
  const { result, task } = await attempt(agent as unknown as Agent);

  expect(result.message).toMatch(/its answer does not fit the agent: text: /);
  expect(task).toMatchObject({ state: 'pending', attempts: 1 });
});

test('an input that does not fit the agent that is loaded now fails the attempt before anything is sent', async () => {
  const input = z.object({ document: z.string() });
  const { result } = await attempt(defineAgent({ ...anything, input, run: (task) => ask(task, 'one') }));

  expect(result.message).toMatch(/its input does not fit the agent: document: /);
  expect(bench.provider.requestCount).toBe(0);
});

test('the agent’s run gets the input as its schema makes it', async () => {
  const input = z.object({ question: z.string().transform((text) => text.length) });
  const { task } = await attempt(
    defineAgent({ ...anything, input, run: async (task) => task.input.question }) as Agent,
  );

  expect(task.result).toBe('question 1'.length);
});

test('a check that throws rejects the answer: the attempt fails with its words', async () => {
  const agent = defineAgent({
    ...anything,
    run: async () => 'a guess',
    check(answer) {
      throw new Error(`"${answer}" cites nothing`);
    },
  });
  const { result, task } = await attempt(agent);

  expect(result).toMatchObject({ ending: 'failed', isFinal: false, message: '"a guess" cites nothing' });
  expect(task).toMatchObject({ state: 'pending', result: null });
});

test('a check that rejects later rejects as well', async () => {
  const agent = defineAgent({
    ...anything,
    run: async () => 'a guess',
    check: async () => Promise.reject(new Error('no')),
  });
  expect((await attempt(agent)).result.message).toBe('no');
});

test('a check that is content lets the answer pass', async () => {
  const { task } = await attempt(defineAgent({ ...anything, run: async () => 'cited', check: () => undefined }));
  expect(task.result).toBe('cited');
});

test('an answer rejected on every attempt fails the task for good', async () => {
  const agent = defineAgent({ ...anything, run: async () => 1, check: () => Promise.reject(new Error('no')) });
  const { result, task } = await attempt(agent, { maxAttempts: 1 });

  expect(result).toMatchObject({ ending: 'failed', isFinal: true });
  expect(task).toMatchObject({ state: 'failed', failure: { kind: 'agent', message: 'no' } });
});

test('an answer that the database cannot keep, such as one with a NUL character, fails the attempt and says so', async () => {
  const { result } = await attempt(defineAgent({ ...anything, run: async () => 'a\0b' }));
  expect(result).toMatchObject({ ending: 'failed', message: expect.stringMatching(/the database refuses the answer/) });
});

test('something thrown that is no error is shown as it prints', async () => {
  const agent = defineAgent({ ...anything, run: () => Promise.reject('plain words') });
  expect((await attempt(agent)).result.message).toBe('plain words');
});

test('the task knows its key, its item, its options and when it was first claimed', async () => {
  const run: Agent['run'] = async (task) => [task.key, task.item, task.options, task.startedAt];
  const { task, claimed } = await attempt({ ...anything, run }, { agentOptions: { model: 'm' } });

  expect(task.result).toEqual([claimed.key, '1', { model: 'm' }, claimed.firstClaimedAt.toISOString()]);
  expect(claimed.key).toMatch(/^batch-\d+:1:v1$/);
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { taskOf } from '../../support/attempts.ts';
import { ANSWER, ANSWERED, recursiveBench } from '../../support/recursive-bench.ts';
import type { Exchange } from '../../support/scripted-provider.ts';
import { until } from '../../support/until.ts';

const bench = recursiveBench();
const QUESTIONS = ['one', 'two', 'three', 'four', 'five'];
const HANGS = 'print(await llm("before")); new Array(4_000_000_000) + ""';

beforeAll(() => {
  process.env.MADRUGADA_SANDBOX_SECONDS = '1';
});
afterAll(() => {
  delete process.env.MADRUGADA_SANDBOX_SECONDS;
});

test('code that takes its thread along fails its own task; those beside it are replayed, and nothing is asked twice', async () => {
  const held: Exchange[] = [];
  const neighbours = Object.fromEntries(
    QUESTIONS.map((question) => [
      question,
      [`var n = "${question}"; print(await llm(n + " first"))`, 'await llm(n + " held")', ANSWER],
    ]),
  );
  bench.play({ ...neighbours, hangs: [HANGS] }, (exchange) => {
    if (exchange.body.includes('held')) held.push(exchange);
    else exchange.message();
  });
  const batches = await Promise.all([...QUESTIONS, 'hangs'].map((question) => bench.load({ input: { question } })));
  const running = await Promise.all(batches.slice(0, -1).map((batch) => bench.start(batch)));
  await until('all neighbours wait for a call', () => held.length === QUESTIONS.length);

  const hanging = await bench.attempt(batches.at(-1) ?? '');
  for (const exchange of held) exchange.message();
  const results = await Promise.all(running.map(({ result }) => result));

  expect(hanging).toMatchObject({ ending: 'failed', message: expect.stringMatching(/could not be stopped/) });
  expect(results.map(({ ending }) => ending)).toEqual(QUESTIONS.map(() => 'completed'));
  expect(results.some(({ replayedCalls }) => replayedCalls > 0)).toBe(true);
  expect(bench.repeated).toEqual([]);
  for (const batch of batches.slice(0, -1))
    expect(await taskOf(bench.journal.db, batch)).toMatchObject({ result: ANSWERED, attempts: 1 });
});

import { expect, test } from 'vitest';
import { ANSWER, ANSWERED, QUESTION, recursiveBench, say } from '../../support/recursive-bench.ts';
import type { Exchange } from '../../support/scripted-provider.ts';
import { until } from '../../support/until.ts';

const bench = recursiveBench();

test('without an answer after max_turns the attempt fails, and the root model is not asked again', async () => {
  const { result } = await bench.run(['1', '2', '3', ANSWER], { options: { max_turns: '3' } });

  expect(result).toMatchObject({ ending: 'failed', message: 'there was no answer after 3 turns (option max_turns)' });
  expect(bench.rootRequests).toHaveLength(3);
});

test('an answer in the last turn counts', async () => {
  const { result } = await bench.run(['1', '2', ANSWER], { options: { max_turns: '3' } });
  expect(result.ending).toBe('completed');
});

test('a message without code uses up a turn', async () => {
  const { result } = await bench.run([{ message: 'hm' }, { message: 'hm' }, ANSWER], { options: { max_turns: '2' } });
  expect(result.ending).toBe('failed');
});

test('a sub-call beyond max_subcalls is not sent but told to the code, and the root model can still answer', async () => {
  const code = `await llm('one'); await llm('two');
    try { await llm('three') } catch (error) { print('told:', error.message) }`;
  const { task } = await bench.run([code, ANSWER], { options: { max_subcalls: '2' } });

  expect(bench.prompts).toEqual(['one', 'two']);
  expect(bench.told[0]).toContain('told: the limit of 2 sub-calls is reached; answer with what is known');
  expect(bench.told[0]).toContain('2 of 2 sub-calls are used');
  expect(task.result).toEqual(ANSWERED);
});

test('of a batch only what is left of max_subcalls is sent; the rest is null, and said why', async () => {
  await bench.run(['print(await llmBatch(["a", "b", "c"]));', ANSWER], { options: { max_subcalls: '2' } });

  expect(bench.prompts).toEqual(['a', 'b']);
  expect(bench.told[0]).toContain('["answer to a", "answer to b", null]');
  expect(bench.told[0]).toContain('[sub-call 3: the limit of 2 sub-calls is reached');
});

test('max_subcalls=0 allows none', async () => {
  const { result } = await bench.run(['await llm("one")', ANSWER], { options: { max_subcalls: '0' } });

  expect(bench.prompts).toEqual([]);
  expect(result.ending).toBe('completed');
});

/** Code that lets nothing stop it. */
const STUBBORN = `for (let n = 1; n <= 5; n += 1) {
    try { await llm('number ' + n) } catch (error) { print(error.message) }
  }
  ${ANSWER}`;

test('at max_task_tokens the attempt fails at once, whatever the code catches, and nothing more is sent', async () => {
  // every call uses 30 tokens: the root's 30, then 60, then 90
  const { result, batch } = await bench.run([STUBBORN], { options: { max_task_tokens: '90' } });

  expect(result).toMatchObject({
    ending: 'failed',
    message: 'the task has used 90 tokens; its limit is max_task_tokens=90',
  });
  expect(bench.prompts).toEqual(['number 1', 'number 2']);
  const { rows } = await bench.journal.db.pool.query(
    'SELECT count(*)::int AS count FROM madrugada.call_intent WHERE batch_key = $1',
    [batch],
  );
  expect(rows).toEqual([{ count: 3 }]);
});

test('tokens that the provider kept or took from its cache count as well', async () => {
  const usage = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 40, cache_read_input_tokens: 58 };
  const cached = { message: 'no code', differing: { usage } };
  const { result } = await bench.run([cached, ANSWER], { options: { max_task_tokens: '100' } });

  expect(result.message).toBe('the task has used 100 tokens; its limit is max_task_tokens=100');
  expect(bench.rootRequests).toHaveLength(1);
});

test('below max_task_tokens nothing is refused', async () => {
  const { result } = await bench.run([STUBBORN], { options: { max_task_tokens: '181' } });

  expect(result.ending).toBe('completed');
  expect(bench.prompts).toHaveLength(5);
});

test('at max_task_usd the attempt fails at once, to the exact cent, and nothing more is sent', async () => {
  // every call costs 10 × $1 and 20 × $5 a million tokens: $0.00011
  const { result } = await bench.run([STUBBORN], { options: { max_task_usd: '0.00033' } });

  expect(result).toMatchObject({
    ending: 'failed',
    message: 'the task has spent US$ 0.00033; its limit is max_task_usd=0.00033',
  });
  expect(bench.prompts).toEqual(['number 1', 'number 2']);
});

test('a hair above what was spent one more call is made', async () => {
  await bench.run([STUBBORN], { options: { max_task_usd: '0.000331' } });
  expect(bench.prompts).toHaveLength(3);
});

test('a limit in dollars ends the task with the first answer of a model without a known price', async () => {
  const options = { max_task_usd: '100' };
  bench.play({ [QUESTION]: [STUBBORN] }, (exchange) =>
    say(exchange, { message: 'x', differing: { model: 'brand-new' } }),
  );
  const result = await bench.attempt(await bench.load({ options }));

  expect(result).toMatchObject({
    ending: 'failed',
    message:
      'model brand-new, which answered in the stead of claude-haiku-4-5, has no known price, so max_task_usd cannot be kept',
  });
  expect(bench.prompts).toEqual(['number 1']);
});

test('an answer without a known price is said to be of the model asked where that one answered', async () => {
  const options = { max_task_usd: '100' };
  // a tier that the model's price has no factor for
  const usage = { input_tokens: 1, output_tokens: 1, service_tier: 'brand-new' };
  bench.play({ [QUESTION]: [STUBBORN] }, (exchange) => say(exchange, { message: 'x', differing: { usage } }));
  const result = await bench.attempt(await bench.load({ options }));

  expect(result.message).toBe('model claude-haiku-4-5 has no known price, so max_task_usd cannot be kept');
  expect(bench.prompts).toEqual(['number 1']);
});

test('without a limit in dollars a model needs no known price', async () => {
  bench.play({ [QUESTION]: [STUBBORN] }, (exchange) => say(exchange, { message: 'x', differing: { model: 'new' } }));
  expect((await bench.attempt(await bench.load())).ending).toBe('completed');
});

test('a task that reached a limit fails again on its next attempt, from its journal, for free', async () => {
  bench.play({ [QUESTION]: [STUBBORN] });
  const batch = await bench.load({ options: { max_task_tokens: '90' } });
  const first = await bench.attempt(batch);
  const second = await bench.attempt(batch);

  expect(second).toMatchObject({ ending: 'failed', isFinal: false, message: first.message });
  expect(bench.journal.provider.requestCount).toBe(3);
});

test('never more sub-calls are open at the provider than max_concurrent_subcalls, and no fewer when there is work', async () => {
  const open = new Set<Exchange>();
  let most = 0;
  bench.play(
    { [QUESTION]: ['await llmBatch(Array.from({ length: 10 }, (_, n) => "number " + n));', ANSWER] },
    (exchange) => {
      open.add(exchange);
      most = Math.max(most, open.size);
    },
  );
  const attempt = await bench.start(await bench.load({ options: { max_concurrent_subcalls: '3' } }));
  for (let answered = 0; answered < 10; answered += 1) {
    await until('as many are open as may be', () => open.size === Math.min(3, 10 - answered));
    const [first] = open;
    if (first === undefined) throw new Error('none is open');
    open.delete(first);
    first.message();
  }

  expect((await attempt.result).ending).toBe('completed');
  expect(most).toBe(3);
  expect(new Set(bench.prompts).size).toBe(10);
});

test('of an output longer than max_output_chars the root model sees beginning and end', async () => {
  const code = 'print("A".repeat(150) + "B".repeat(700) + "C".repeat(150));';
  await bench.run([code, ANSWER], { options: { max_output_chars: '300' } });

  expect(bench.told[0]).toMatch(
    /^<output>\nA{150}\n\[… 701 characters of the output were cut here …\]\nC{149}\n<\/output>/,
  );
});

test('an output of max_output_chars is shown whole', async () => {
  await bench.run(['print("A".repeat(299));', ANSWER], { options: { max_output_chars: '300' } });
  expect(bench.told[0]).toMatch(/^<output>\nA{299}\n<\/output>/);
});

test('recurse is not offered at max_depth=1: neither told nor done', async () => {
  const { result } = await bench.run(['await recurse("What?", "some text");', ANSWER]);

  expect(JSON.stringify(bench.rootRequests[0]?.system)).not.toContain('recurse');
  expect(bench.told[0]).toContain(
    'The code failed: Error: recurse is not offered at this depth (option max_depth): use llm',
  );
  expect(bench.rootRequests).toHaveLength(2);
  expect(result.ending).toBe('completed');
});

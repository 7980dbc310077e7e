import { expect, test } from 'vitest';
import { factsOfJson, usageOf } from '../../src/provider/usage.ts';
import { used } from '../support/prices.ts';

const NOTHING = { messageId: undefined, model: undefined, usage: undefined };

test('the counts of an Anthropic answer are read, cache writes by their age', () => {
  expect(
    usageOf({
      input_tokens: 1,
      output_tokens: 2,
      cache_read_input_tokens: 3,
      cache_creation_input_tokens: 9,
      cache_creation: { ephemeral_5m_input_tokens: 4, ephemeral_1h_input_tokens: 5 },
    }),
  ).toEqual(
    used({ inputTokens: 1, outputTokens: 2, cacheReadTokens: 3, cacheWrite5mTokens: 4, cacheWrite1hTokens: 5 }),
  );
});

test('cache writes without an age are five-minute ones', () => {
  expect(usageOf({ cache_creation_input_tokens: 9 })).toMatchObject({ cacheWrite5mTokens: 9, cacheWrite1hTokens: 0 });
});

test('cached tokens of an OpenAI answer are part of its prompt tokens, and are not counted twice', () => {
  expect(usageOf({ prompt_tokens: 100, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 60 } })).toEqual(
    used({ inputTokens: 40, outputTokens: 7, cacheReadTokens: 60 }),
  );
});

test('more cached tokens than prompt tokens do not make a negative count', () => {
  expect(usageOf({ prompt_tokens: 1, prompt_tokens_details: { cached_tokens: 60 } }).inputTokens).toBe(0);
});

for (const value of [null, '5', -1, Number.NaN, 1e300, {}, true])
  test(`a count of ${JSON.stringify(value)} counts nothing`, () => {
    expect(usageOf({ input_tokens: value, output_tokens: 3 })).toMatchObject({ inputTokens: 0, outputTokens: 3 });
  });

test('id, model and usage of a whole answer are read', () => {
  const answer = JSON.stringify({ id: 'msg_1', model: 'claude', usage: { input_tokens: 1, output_tokens: 2 } });
  expect(factsOfJson(answer)).toMatchObject({ messageId: 'msg_1', model: 'claude', usage: { inputTokens: 1 } });
});

test('an answer without usage, such as a list of models, states none', () => {
  expect(factsOfJson('{"data":[],"has_more":false}')).toEqual(NOTHING);
});

for (const body of ['', 'nonsense', '[1]', 'null', '"text"', '7'])
  test(`a body of ${JSON.stringify(body)} states nothing`, () => {
    expect(factsOfJson(body)).toEqual(NOTHING);
  });

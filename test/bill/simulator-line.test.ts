import { expect, test } from 'vitest';
import { parseSimulatorLine } from '../../src/bill/simulator-line.ts';

const LINE = {
  provider_request_id: 'req_1',
  message_id: 'msg_1',
  tag: 'tag_1',
  at: '2026-12-01T03:00:00+01:00',
  model: 'claude-haiku-4-5',
  input_tokens: 10,
  output_tokens: 0,
  cost_usd: '0.0164',
};

const parse = (differing: Record<string, unknown> = {}) =>
  parseSimulatorLine(JSON.stringify({ ...LINE, ...differing }));

test('a line is read whole', () => {
  expect(parse()).toEqual({
    providerRequestId: 'req_1',
    messageId: 'msg_1',
    tag: 'tag_1',
    at: '2026-12-01T02:00:00.000Z',
    model: 'claude-haiku-4-5',
    inputTokens: 10,
    outputTokens: 0,
    costUsd: '0.0164',
  });
});

test.each(['', null, undefined])('an identifier that is %j is none', (nothing) => {
  expect(parse({ provider_request_id: nothing, message_id: nothing, tag: nothing })).toMatchObject({
    providerRequestId: null,
    messageId: null,
    tag: null,
  });
});

test('dollars are taken to the last digit, also those given back', () => {
  expect(parse({ cost_usd: '0.100000000000000000000000000001' }).costUsd).toBe('0.100000000000000000000000000001');
  expect(parse({ cost_usd: '-12.50' }).costUsd).toBe('-12.5');
});

test.each([
  ['dollars as a number', { cost_usd: 0.0164 }, 'cost_usd is not a text'],
  ['dollars in words', { cost_usd: '1e-3' }, 'cost_usd is not a decimal in quotes'],
  ['no dollars', { cost_usd: undefined }, 'cost_usd is missing'],
  ['no model', { model: '' }, 'model is missing'],
  ['no time', { at: 'yesterday' }, 'at is not a time'],
  ['half a token', { input_tokens: 1.5 }, 'input_tokens is not a whole number'],
  ['tokens below zero', { output_tokens: -1 }, 'output_tokens is not a whole number'],
  ['a tag that is a number', { tag: 7 }, 'tag is not a text'],
  ['a NUL character', { message_id: 'a\0' }, 'message_id is not a text'],
])('%s: refused', (_, differing, problem) => {
  expect(() => parse(differing)).toThrow(problem);
});

test.each(['[]', 'null', '"x"', '{'])('the line %j is refused', (line) => {
  expect(() => parseSimulatorLine(line)).toThrow();
});

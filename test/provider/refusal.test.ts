import { expect, test } from 'vitest';
import { classifyResponse, classifyStreamError } from '../../src/provider/refusal.ts';

const body = (type: string, message = 'why') => JSON.stringify({ type: 'error', error: { type, message } });

for (const [status, type, kind] of [
  [400, 'invalid_request_error', 'permanent'],
  [404, 'not_found_error', 'permanent'],
  [413, 'request_too_large', 'permanent'],
  [422, 'unprocessable', 'permanent'],
  [301, '', 'permanent'],
  [401, 'authentication_error', 'account'],
  [403, 'permission_error', 'account'],
  [400, 'billing_error', 'account'],
  [429, 'billing_error', 'account'],
  [408, 'timeout_error', 'transient'],
  [409, 'conflict_error', 'transient'],
  [429, 'rate_limit_error', 'transient'],
  [500, 'api_error', 'transient'],
  [502, '', 'transient'],
  [503, '', 'transient'],
  [504, 'timeout_error', 'transient'],
  [520, '', 'transient'],
  [529, 'overloaded_error', 'transient'],
] as const)
  test(`status ${status} ${type} is refused as ${kind}`, () => {
    expect(classifyResponse(status, {}, body(type)).kind).toBe(kind);
  });

for (const [type, kind] of [
  ['overloaded_error', 'transient'],
  ['rate_limit_error', 'transient'],
  ['api_error', 'transient'],
  ['timeout_error', 'transient'],
  ['authentication_error', 'account'],
  ['billing_error', 'account'],
  ['invalid_request_error', 'permanent'],
] as const)
  test(`an error event ${type} in a stream is a ${kind} refusal, like its twin among the statuses`, () => {
    expect(classifyStreamError(body(type))).toMatchObject({ kind, message: 'error in the stream: why' });
  });

test('a refusal says the status and the provider’s own words', () => {
  expect(classifyResponse(529, {}, body('overloaded_error', 'Overloaded')).message).toBe('HTTP 529: Overloaded');
});

test('a refusal by something that is no provider, such as a gateway’s page, is classified by its status', () => {
  expect(classifyResponse(502, {}, '<html>Bad Gateway</html>')).toMatchObject({
    kind: 'transient',
    message: 'HTTP 502: <html>Bad Gateway</html>',
  });
});

for (const [what, status, type, code, message] of [
  [
    'no credit, as Anthropic says it',
    400,
    'invalid_request_error',
    '',
    'Your credit balance is too low to access the API.',
  ],
  [
    'a spending limit, as Anthropic says it',
    400,
    'invalid_request_error',
    '',
    'You have reached your specified API usage limits.',
  ],
  ['no quota, as OpenAI says it', 429, 'insufficient_quota', 'insufficient_quota', 'You exceeded your current quota'],
  [
    'a spending limit, as OpenAI says it',
    400,
    'invalid_request_error',
    'billing_hard_limit_reached',
    'Billing hard limit has been reached',
  ],
  ['a gateway that wants to be paid', 402, '', '', 'Payment required'],
] as const)
  test(`${what}, is final for the whole batch, although it looks like something else`, () => {
    const error = JSON.stringify({ type: 'error', error: { type, code, message } });
    expect(classifyResponse(status, {}, error).kind).toBe('account');
    if (status !== 402) expect(classifyStreamError(error).kind).toBe('account');
  });

test('a rate limit of OpenAI stays one, whatever it says of limits', () => {
  const error = { type: 'requests', code: 'rate_limit_exceeded', message: 'Rate limit reached for requests' };
  expect(classifyResponse(429, {}, JSON.stringify({ error })).kind).toBe('transient');
});

const NOW = new Date('2026-12-03T02:00:00Z');
for (const [headers, ms] of [
  [{ 'retry-after': '2' }, 2000],
  [{ 'retry-after': '0.5' }, 500],
  [{ 'retry-after': '3600' }, 3_600_000],
  [{ 'retry-after': 'Thu, 03 Dec 2026 02:00:30 GMT' }, 30_000],
  [{ 'retry-after-ms': '1500' }, 1500],
  [{ 'retry-after-ms': '1500', 'retry-after': '9' }, 1500],
  [{ 'retry-after-ms': 'soon', 'retry-after': '9' }, 9000],
  [{ 'retry-after': 'Thu, 03 Dec 2026 01:00:00 GMT' }, undefined],
  [{ 'retry-after': '0' }, undefined],
  [{ 'retry-after': '-5' }, undefined],
  [{ 'retry-after': '999999999' }, undefined],
  [{ 'retry-after': 'soon' }, undefined],
  [{ 'retry-after': '' }, undefined],
  [{}, undefined],
] as [Record<string, string>, number | undefined][])
  test(`${JSON.stringify(headers)} asks to wait ${ms ?? 'no stated number of'} milliseconds`, () => {
    expect(classifyResponse(429, headers, '', NOW).retryAfterMs).toBe(ms);
  });

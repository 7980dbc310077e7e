import { expect, test } from 'vitest';
import { classifyResponse, classifyStreamError } from '../../src/provider/refusal.ts';

const body = (type: string, message = 'why') => JSON.stringify({ type: 'error', error: { type, message } });

for (const [status, type, kind] of [
  [400, 'invalid_request_error', 'permanent'],
  [404, 'not_found_error', 'permanent'],
  [413, 'request_too_large', 'permanent'],
  [422, 'unprocessable', 'permanent'],
  [301, '', 'permanent'],
  [401, 'authentication_error', 'credentials'],
  [403, 'permission_error', 'credentials'],
  [400, 'billing_error', 'credentials'],
  [429, 'billing_error', 'credentials'],
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
  test(`status ${status} ${type} is a ${kind} refusal`, () => {
    expect(classifyResponse(status, {}, body(type)).kind).toBe(kind);
  });

for (const [type, kind] of [
  ['overloaded_error', 'transient'],
  ['rate_limit_error', 'transient'],
  ['api_error', 'transient'],
  ['timeout_error', 'transient'],
  ['authentication_error', 'credentials'],
  ['billing_error', 'credentials'],
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

for (const [header, ms] of [
  ['2', 2000],
  ['0.5', 500],
  ['3600', 3_600_000],
  ['0', undefined],
  ['-5', undefined],
  ['soon', undefined],
  ['', undefined],
] as const)
  test(`retry-after ${JSON.stringify(header)} asks to wait ${ms ?? 'no stated number of'} milliseconds`, () => {
    expect(classifyResponse(429, { 'retry-after': header }, '').retryAfterMs).toBe(ms);
  });

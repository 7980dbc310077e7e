import { expect, test } from 'vitest';
import { classify, type DispatchEnd, type Received } from '../../src/provider/refusal.ts';
import { messageOf, streamEvents } from '../support/scripted-provider.ts';

/** An error body of Anthropic's. */
const body = (type: string, message = 'why') => JSON.stringify({ type: 'error', error: { type, message } });
/** An error body of OpenAI's. */
const openAi = (type: string | null, code: string | null, message = 'why') =>
  JSON.stringify({ error: { message, type, param: null, code } });

function classifyBody(status: number, text: string, more: Partial<Received> = {}): DispatchEnd {
  const received = { method: 'POST', path: '/v1/messages', status, headers: {}, body: Buffer.from(text) };
  return classify({ ...received, brokenBy: undefined, ...more });
}

function classifyEvents(text: string, more: Partial<Received> = {}): DispatchEnd {
  return classifyBody(200, text, { headers: { 'content-type': 'text/event-stream; charset=utf-8' }, ...more });
}

const event = (json: string) => `data: ${json}\n\n`;
const data = (value: object) => event(JSON.stringify(value));

/** An ending in short: what becomes of the call, and `?` where it may have been charged. */
function inShort(end: DispatchEnd): string {
  return 'charge' in end && end.charge === 'possible' ? `${end.kind}?` : end.kind;
}

const MESSAGE = JSON.stringify(messageOf(1, 'text'));
const STREAM = streamEvents(1, 'text');
const BEGUN = STREAM.slice(0, 3).join('');
const CREDIT = 'Your credit balance is too low to access the Anthropic API.';
const LIMIT = 'You have reached your specified API usage limits. You will regain access on 2027-01-01 at 00:00 UTC.';

const RESPONSES: [what: string, status: number, text: string, end: string, more?: Partial<Received>][] = [
  ['a message', 200, MESSAGE, 'completed'],
  ['a chat completion', 200, '{"choices":[]}', 'completed', { path: '/v1/chat/completions' }],
  ['a response of OpenAI’s', 200, '{"object":"response","error":null}', 'completed', { path: '/v1/responses' }],
  ['a count of tokens', 200, '{"input_tokens":7}', 'completed', { path: '/v1/messages/count_tokens' }],
  ['a list of models', 200, '{"data":[]}', 'completed', { method: 'GET', path: '/v1/models' }],
  ['a deletion', 204, '', 'completed', { method: 'DELETE', path: '/v1/files/1' }],

  ['a malformed request', 400, body('invalid_request_error'), 'permanent for task'],
  ['a model that is not there', 404, body('not_found_error'), 'permanent for task'],
  ['a request that is too large', 413, body('request_too_large'), 'permanent for task'],
  ['a request that cannot be processed', 422, openAi('invalid_request_error', null), 'permanent for task'],
  ['a redirection', 301, '', 'permanent for task'],

  ['a timeout of the provider', 408, body('timeout_error'), 'refused'],
  ['a conflict', 409, body('conflict_error'), 'refused'],
  ['a rate limit', 429, body('rate_limit_error'), 'refused'],
  ['a rate limit of OpenAI’s', 429, openAi('requests', 'rate_limit_exceeded', 'Rate limit reached'), 'refused'],
  ['a rate limit of a gateway', 429, '', 'refused'],
  ['an internal error', 500, body('api_error'), 'refused'],
  ['an internal error of OpenAI’s', 500, openAi('server_error', null), 'refused'],
  ['a gateway without a provider', 503, '<html>Service Unavailable</html>', 'refused'],
  ['a timeout after the provider’s own reckoning', 504, body('timeout_error'), 'refused'],
  ['a provider that is overloaded', 529, body('overloaded_error'), 'refused'],

  ['a gateway that lost its provider', 502, '<html>Bad Gateway</html>', 'refused?'],
  ['a gateway that gave up waiting', 504, '<html>Gateway Time-out</html>', 'refused?'],
  ['a gateway that gave up waiting, in OpenAI’s form', 408, openAi(null, '408'), 'refused?'],
  ['Cloudflare that got no sensible response', 520, '', 'refused?'],
  ['Cloudflare that gave up waiting', 524, '', 'refused?'],

  ['a wrong key', 401, body('authentication_error'), 'permanent for batch'],
  ['a wrong key, in a body that says nothing', 401, '', 'permanent for batch'],
  ['a gateway that wants to be paid', 402, '', 'permanent for batch'],
  ['a missing permission', 403, body('permission_error'), 'permanent for batch'],
  ['a billing problem', 400, body('billing_error'), 'permanent for batch'],
  ['a billing problem that looks like a rate limit', 429, body('billing_error'), 'permanent for batch'],
  ['a billing problem that looks like an outage', 500, body('billing_error'), 'permanent for batch'],
  ['no credit, as Anthropic says it', 400, body('invalid_request_error', CREDIT), 'permanent for batch'],
  ['a spending limit, as Anthropic says it', 400, body('invalid_request_error', LIMIT), 'permanent for batch'],
  ['a spending limit behind a rate limit', 429, body('rate_limit_error', LIMIT), 'permanent for batch'],
  ['no quota, as OpenAI says it', 429, openAi('insufficient_quota', 'insufficient_quota'), 'permanent for batch'],
  ['a hard limit of OpenAI’s', 400, openAi(null, 'billing_hard_limit_reached'), 'permanent for batch'],
  ['an account of OpenAI’s that is closed', 429, openAi(null, 'account_deactivated'), 'permanent for batch'],
  ['a budget of a gateway', 400, openAi('budget_exceeded', '400'), 'permanent for batch'],

  ['a success that is a proxy’s page', 200, '<html>Please log in</html>', 'unknown'],
  ['a success without a body', 200, '', 'unknown'],
  ['a success without content', 204, '', 'unknown'],
  ['a success whose JSON is cut off', 200, MESSAGE.slice(0, -9), 'unknown'],
  ['a success whose JSON is no message', 200, '{"ok":true}', 'unknown'],
  ['a success whose JSON is no object', 200, '[]', 'unknown'],
  ['a success that is no chat completion', 200, '{}', 'unknown', { path: '/v1/chat/completions' }],
  ['a success that is no response of OpenAI’s', 200, '{}', 'unknown', { path: '/v1/responses' }],
  ['a success that says overloaded', 200, body('overloaded_error'), 'refused?'],
  ['a success that says the request is malformed', 200, body('invalid_request_error'), 'permanent for task?'],
  ['a success that says there is no credit', 200, body('invalid_request_error', CREDIT), 'permanent for batch?'],

  ['no response', 0, '', 'unknown', { brokenBy: 'ECONNRESET' }],
  ['an answer that broke off', 200, MESSAGE.slice(0, 9), 'unknown', { brokenBy: 'ECONNRESET' }],
  ['a refusal whose body broke off', 429, '{"er', 'refused', { brokenBy: 'ECONNRESET' }],
];

for (const [what, status, text, end, more] of RESPONSES)
  test(`${what} (status ${status}) ends a dispatch as ${end}`, () => {
    expect(inShort(classifyBody(status, text, more))).toBe(end);
  });

const openAiFailed = (code: string) => data({ type: 'response.failed', response: { id: 'r', error: { code } } });
const openAiError = (code: string) => data({ type: 'error', code, message: 'why', param: null });

const STREAMS: [what: string, text: string, end: string, more?: Partial<Received>][] = [
  ['an answer', STREAM.join(''), 'completed'],
  ['an answer whose connection broke after its end', STREAM.join(''), 'completed', { brokenBy: 'ECONNRESET' }],
  ['an answer of OpenAI’s', `${data({ id: 'c', choices: [] })}data: [DONE]\n\n`, 'completed'],
  ['an answer of OpenAI’s that ran to its limit', data({ type: 'response.incomplete', response: {} }), 'completed'],

  ['nothing', '', 'unknown'],
  ['an end without an answer', 'data: [DONE]\n\n', 'unknown'],
  ['an answer without its end', BEGUN, 'unknown'],
  ['an answer that broke off', BEGUN, 'unknown', { brokenBy: 'ECONNRESET' }],

  ['an overloaded error', event(body('overloaded_error')), 'refused'],
  ['a rate limit', event(body('rate_limit_error')), 'refused'],
  ['an internal error', event(body('api_error')), 'refused'],
  ['a timeout', event(body('timeout_error')), 'refused'],
  ['an error of a gateway', data({ error: { message: 'why', code: 502 } }), 'refused'],
  ['an error of OpenAI’s', openAiError('server_error'), 'refused'],
  ['a malformed request', event(body('invalid_request_error')), 'permanent for task'],

  ['an overloaded error after a part', BEGUN + event(body('overloaded_error')), 'refused?'],
  ['an answer of OpenAI’s that failed', openAiFailed('server_error'), 'refused?'],
  ['a malformed request after a part', BEGUN + event(body('invalid_request_error')), 'permanent for task?'],

  ['a wrong key', event(body('authentication_error')), 'permanent for batch'],
  ['a billing problem', event(body('billing_error')), 'permanent for batch'],
  ['no credit, as Anthropic says it', event(body('invalid_request_error', CREDIT)), 'permanent for batch'],
  ['a spending limit, as Anthropic says it', event(body('rate_limit_error', LIMIT)), 'permanent for batch'],
  ['no quota, as OpenAI says it', openAiError('insufficient_quota'), 'permanent for batch'],
  ['no quota, as a gateway says it', data({ error: { code: 402, message: 'why' } }), 'permanent for batch'],
  ['no quota for an answer under way', openAiFailed('insufficient_quota'), 'permanent for batch?'],
  ['no credit after a part', BEGUN + event(body('invalid_request_error', CREDIT)), 'permanent for batch?'],
  [
    'no credit, and then a broken connection',
    event(body('billing_error')),
    'permanent for batch',
    { brokenBy: 'ECONNRESET' },
  ],
];

for (const [what, text, end, more] of STREAMS)
  test(`a stream that brings ${what} ends a dispatch as ${end}`, () => {
    expect(inShort(classifyEvents(text, more))).toBe(end);
  });

for (const [what, end, onLoad] of [
  ...[429, 503, 529].map((status) => [`HTTP ${status}`, classifyBody(status, body('api_error')), true] as const),
  ...[408, 500, 502, 504].map((status) => [`HTTP ${status}`, classifyBody(status, body('api_error')), false] as const),
  ...['overloaded_error', 'rate_limit_error'].flatMap((type) => [
    [`${type} in a stream`, classifyEvents(event(body(type))), true] as const,
    [`${type} after a part`, classifyEvents(BEGUN + event(body(type))), true] as const,
    [`${type} as a body`, classifyBody(200, body(type)), true] as const,
  ]),
  ['api_error in a stream', classifyEvents(event(body('api_error'))), false],
  ['an error of load in OpenAI’s words', classifyEvents(openAiError('rate_limit_exceeded')), true],
] as const)
  test(`${what} ${onLoad ? 'asks everybody' : 'asks nobody else'} to slow down`, () => {
    expect(end).toMatchObject({ kind: 'refused', onLoad });
  });

test('a refusal says the status and the provider’s own words', () => {
  expect(classifyBody(529, body('overloaded_error', 'Overloaded'))).toMatchObject({ message: 'HTTP 529: Overloaded' });
  expect(classifyBody(502, '<html>Bad Gateway')).toMatchObject({ message: 'HTTP 502: <html>Bad Gateway' });
  expect(classifyEvents(event(body('api_error')))).toMatchObject({ message: 'error in the stream: why' });
  expect(classifyEvents(openAiError('server_error'))).toMatchObject({ message: 'error in the stream: why' });
});

test('a success that is no answer says what it is instead', () => {
  expect(classifyBody(200, '<html>Log in')).toMatchObject({
    message: 'HTTP 200 that is no answer: its body is not JSON: <html>Log in',
  });
  expect(classifyBody(200, ' ')).toMatchObject({ message: 'HTTP 200 that is no answer: its body is empty' });
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
    const received = { method: 'POST', path: '/v1/messages', status: 429, headers, body: Buffer.alloc(0) };
    expect(classify({ ...received, brokenBy: undefined }, NOW)).toMatchObject({ kind: 'refused', retryAfterMs: ms });
  });

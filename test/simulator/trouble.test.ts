import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parseFaultShares } from '../../src/simulator/fault-shares.ts';
import { ask, type ForkedSimulator, forkSimulator, runToExit, temporaryFolder } from './forked-simulator.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let simulator: ForkedSimulator;
let arrivals: string;

beforeEach(async () => {
  folder = await temporaryFolder();
  arrivals = join(folder.path, 'arrivals.jsonl');
  simulator = await forkSimulator(join(folder.path, 'bill.jsonl'), ['--arrivals', arrivals]);
});

afterEach(async () => {
  await simulator.stop();
  await folder.remove();
});

function post(wish: string, stream: boolean, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${simulator.url}/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': 'dummy', 'x-simulate': wish, ...headers },
    body: JSON.stringify({ ...ask('hello'), stream }),
  });
}

const STREAMED = true;
const PLAIN = false;
const CASES: [wish: string, stream: boolean, status: number, body: RegExp, charges: number][] = [
  ['refuse=502', PLAIN, 502, /"api_error"/, 0],
  ['refuse=503', STREAMED, 503, /"api_error"/, 0],
  ['refuse=504', PLAIN, 504, /"timeout_error"/, 0],
  ['refuse=401', PLAIN, 401, /"authentication_error"/, 0],
  ['refuse=402', PLAIN, 402, /"billing_error"/, 0],
  ['refuse=403', PLAIN, 403, /"permission_error"/, 0],
  ['refuse=credit', STREAMED, 400, /"invalid_request_error".*credit balance is too low/, 0],
  ['page=200', STREAMED, 200, /^<!doctype html>/, 0],
  ['page=502', PLAIN, 502, /^<!doctype html>/, 0],
  ['page=503', PLAIN, 503, /^<!doctype html>/, 0],
  ['page=504', PLAIN, 504, /^<!doctype html>/, 1],
  ['error-first=rate_limit_error', STREAMED, 200, /^event: error\ndata: .*"rate_limit_error".*\n\n$/, 0],
  ['error-first', PLAIN, 200, /^{"type":"error".*"overloaded_error"/, 0],
  ['error-late=billing_error', STREAMED, 200, /^event: message_start.*text_delta.*"billing_error".*\n\n$/s, 1],
  ['error-late=api_error', PLAIN, 200, /^{"type":"error".*"api_error"/, 1],
  ['end-early', STREAMED, 200, /^event: message_start.*text_delta((?!message_delta|message_stop).)*\n\n$/s, 1],
  ['end-early', PLAIN, 200, /^{"id":.*[^}]$/s, 1],
];

for (const [wish, stream, status, body, charges] of CASES)
  test(`${wish} of a ${stream ? 'stream' : 'plain answer'} has status ${status} and is charged ${charges} times`, async () => {
    const response = await post(wish, stream);
    expect(response.status).toBe(status);
    expect(await response.text()).toMatch(body);
    expect(await simulator.billLines()).toHaveLength(charges);
  });

test('a refusal asks to wait in seconds, in milliseconds or until a date', async () => {
  const [seconds, ms, date] = await Promise.all(
    ['2', '500ms', '60date'].map((asked) => post(`refuse,retry-after=${asked}`, PLAIN)),
  );
  expect(seconds?.headers.get('retry-after')).toBe('2');
  expect(ms?.headers.get('retry-after-ms')).toBe('500');
  const until = Date.parse(date?.headers.get('retry-after') ?? '');
  expect(Math.abs(until - Date.now() - 60_000)).toBeLessThan(30_000);
});

test('a request that a proxy kept from the provider is not received, to whoever looks it up; one it gave up on is answered', async () => {
  await post('page=502', PLAIN, { 'x-madrugada-tag': 'kept' });
  await post('page=504', PLAIN, { 'x-madrugada-tag': 'lost' });
  const stateOf = async (tag: string) => {
    const response = await fetch(`${simulator.url}/v1/dispatches/${tag}`, { headers: { 'x-api-key': 'dummy' } });
    return response.headers.get('x-dispatch-state');
  };
  expect(await stateOf('kept')).toBe('not-received');
  expect(await stateOf('lost')).toBe('answered');
});

test('every arrival is listed with its model and what became of it, refused or not', async () => {
  await post('', PLAIN, { 'x-madrugada-tag': 'one' });
  await post('refuse=529', PLAIN, { 'x-madrugada-tag': 'two' });
  await post('no such fault', PLAIN);
  await simulator.stop();
  const lines = (await readFile(arrivals, 'utf8')).trimEnd().split('\n');
  const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  const model = 'claude-haiku-4-5';
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { received_at: at, tag: 'one', model, fate: 'answered' },
    { received_at: at, tag: 'two', model, fate: 'refuse=529' },
    { received_at: at, tag: null, model, fate: 'malformed' },
  ]);
});

test('--faults divides its share evenly among every passing kind, and never touches the account', () => {
  const shares = parseFaultShares(undefined, '0.2', undefined);
  const names = shares.map(({ fault }) => fault.name);
  expect(shares.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(0.2);
  expect(new Set(shares.map(({ probability }) => probability)).size).toBe(1);
  expect(names).toContain('refuse=429');
  expect(names).toContain('error-late=overloaded_error');
  expect(names).toContain('stall-headers');
  expect(names.filter((name) => /40[123]|credit|authentication|billing|permission/.test(name))).toEqual([]);
});

test('--fault-kinds says which kinds those are, the account’s too', () => {
  const shares = parseFaultShares('cut-stream:0.1', '0.2', 'refuse=401,error-first=billing_error');
  expect(shares.map(({ fault, probability }) => [fault.name, probability])).toEqual([
    ['cut-stream', 0.1],
    ['refuse=401', 0.1],
    ['error-first=billing_error', 0.1],
  ]);
});

for (const [flags, reason] of [
  [['--faults', '2'], '--faults takes'],
  [['--faults', '0.6', '--fault', 'refuse:0.6'], 'add up to more than 1'],
  [['--fault-kinds', 'refuse'], '--fault-kinds needs --faults'],
  [['--faults', '0.1', '--fault-kinds', 'explode'], '"explode" is not one of'],
  [['--burst', '0'], '--burst takes'],
] as const)
  test(`${flags.join(' ')} ends with exit code 2 and says why`, async () => {
    const { code, stderr } = await runToExit([...flags, '--bill', join(folder.path, 'other.jsonl')]);
    expect(stderr).toContain(reason);
    expect(code).toBe(2);
  });

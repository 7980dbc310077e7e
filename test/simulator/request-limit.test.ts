import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { RequestLimit, RequestLimits } from '../../src/simulator/request-limit.ts';
import { ask, forkSimulator, temporaryFolder } from './forked-simulator.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;

beforeEach(async () => {
  folder = await temporaryFolder();
});

afterEach(() => folder.remove());

test('more requests than the limit are refused with the time to wait, and not charged', async () => {
  const bill = join(folder.path, 'bill.jsonl');
  const simulator = await forkSimulator(bill, ['--requests-per-minute', '1']);
  const response = await simulator.client.messages.create(ask('first')).asResponse();
  const error = await simulator.client.messages.create(ask('second')).catch((thrown: unknown) => thrown);
  await simulator.stop();

  expect(response.headers.get('anthropic-ratelimit-requests-limit')).toBe('1');
  expect(response.headers.get('anthropic-ratelimit-requests-remaining')).toBe('0');
  expect(error).toMatchObject({ status: 429 });
  const { headers } = error as { headers: Headers };
  expect(headers.get('anthropic-ratelimit-requests-limit')).toBe('1');
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  expect((await readFile(bill, 'utf8')).trim().split('\n')).toHaveLength(1);
});

test('without a limit no response announces one', async () => {
  const simulator = await forkSimulator(join(folder.path, 'bill.jsonl'));
  const { headers } = await simulator.client.messages.create(ask('first')).asResponse();
  await simulator.stop();
  expect([...headers.keys()].filter((name) => name.includes('ratelimit'))).toEqual([]);
});

/** A limit on a clock that the test moves, what it says to a request, and with which headers. */
function limitOf(perMinute: number, burst?: number) {
  let now = 0;
  const limit = new RequestLimit(perMinute, burst, () => now);
  const headers: Record<string, unknown> = {};
  return {
    headers,
    admit: () =>
      limit.admit({
        setHeader(name, value) {
          headers[name] = value;
          return undefined as never;
        },
      }),
    pass(ms: number) {
      now += ms;
    },
  };
}

test('a minute’s requests may come at once, and the next one after its share of the minute', () => {
  const { admit, pass } = limitOf(6);
  expect(Array.from({ length: 7 }, admit)).toEqual([...Array(6).fill(undefined), 10]);
  pass(9_999);
  expect(admit()).toBe(1);
  pass(1);
  expect(admit()).toBeUndefined();
  expect(admit()).toBe(10);
});

test('each response says how many requests are left, and when all of them will be there again', () => {
  const { admit, pass, headers } = limitOf(6);
  const said = () => {
    admit();
    const { 'anthropic-ratelimit-requests-remaining': left, 'anthropic-ratelimit-requests-reset': reset } = headers;
    return [left, Date.parse(String(reset))];
  };
  expect([said(), said()]).toEqual([
    ['5', 10_000],
    ['4', 20_000],
  ]);
  pass(15_000);
  expect(said()).toEqual(['4', 30_000]);
});

test('a request beyond the limit is found by the look-up as refused', async () => {
  const simulator = await forkSimulator(join(folder.path, 'bill.jsonl'), ['--requests-per-minute', '1']);
  await simulator.client.messages.create(ask('first'));
  const tagged = { headers: { 'x-madrugada-tag': 'second' } };
  await simulator.client.messages.create(ask('second'), tagged).catch(() => undefined);
  const found = await fetch(`${simulator.url}/v1/dispatches/second`, { headers: { 'x-api-key': 'dummy' } });
  await simulator.stop();

  expect(found.headers.get('x-dispatch-state')).toBe('refused');
  expect(found.headers.get('x-dispatch-status')).toBe('429');
});

test('what is not used is not saved beyond a minute’s requests', () => {
  const { admit, pass } = limitOf(2);
  pass(3_600_000);
  expect([admit(), admit(), admit()]).toEqual([undefined, undefined, 30]);
});

test('a smaller bucket lets fewer come at once, at the same rate', () => {
  const { admit, pass } = limitOf(60, 2);
  expect([admit(), admit(), admit()]).toEqual([undefined, undefined, 1]);
  pass(1_000);
  expect([admit(), admit()]).toEqual([undefined, 1]);
});

test('each model has its own limit', () => {
  const limits = new RequestLimits(1, undefined);
  const response = { setHeader: () => undefined as never };
  expect(limits.admit('one', response)).toBeUndefined();
  expect(limits.admit('other', response)).toBeUndefined();
  expect(limits.admit('one', response)).toBeGreaterThan(0);
});

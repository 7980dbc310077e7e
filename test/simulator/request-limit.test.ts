import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { RequestLimit } from '../../src/simulator/request-limit.ts';
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
  expect(Date.parse(response.headers.get('anthropic-ratelimit-requests-reset') ?? '')).toBeGreaterThan(0);
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

/** A limit on a clock that the test moves, and what it says to a request. */
function limitOf(perMinute: number) {
  let now = 0;
  const limit = new RequestLimit(perMinute, () => now);
  return {
    admit: () => limit.admit({ setHeader: () => undefined as never }),
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

test('what is not used is not saved beyond a minute’s requests', () => {
  const { admit, pass } = limitOf(2);
  pass(3_600_000);
  expect([admit(), admit(), admit()]).toEqual([undefined, undefined, 30]);
});

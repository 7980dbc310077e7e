import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ask, type ForkedSimulator, forkSimulator, temporaryFolder, wish } from './forked-simulator.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let simulator: ForkedSimulator;

beforeEach(async () => {
  folder = await temporaryFolder();
  simulator = await forkSimulator(join(folder.path, 'bill.jsonl'));
});

afterEach(async () => {
  await simulator.stop();
  await folder.remove();
});

/** "pending" if `promise` is still open after a whole other request was answered. */
async function stateOf(promise: Promise<unknown>): Promise<string> {
  let state = 'pending';
  promise.then(
    () => {
      state = 'fulfilled';
    },
    () => {
      state = 'rejected';
    },
  );
  await simulator.client.messages.create(ask('another request'));
  return state;
}

test.each([
  [429, 'rate_limit_error'],
  [500, 'api_error'],
  [529, 'overloaded_error'],
])('refuse=%i is an error of type %s and is not charged', async (status, type) => {
  const call = simulator.client.messages.create(ask('hello'), wish(`refuse=${status}`));
  await expect(call).rejects.toMatchObject({ status, error: { type: 'error', error: { type } } });
  expect(await simulator.billLines()).toHaveLength(0);
});

test('a refusal says when to come back if asked to', async () => {
  const call = simulator.client.messages.create(ask('hello'), wish('refuse=429,retry-after=2'));
  const error = await call.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(Anthropic.RateLimitError);
  expect(error instanceof Anthropic.RateLimitError && error.headers.get('retry-after')).toBe('2');
});

test('stall-headers charges and sends nothing', async () => {
  const abort = new AbortController();
  const call = simulator.client.messages.create(ask('hello'), { ...wish('stall-headers'), signal: abort.signal });
  await simulator.billed(1);
  expect(await stateOf(call)).toBe('pending');
  abort.abort();
  await expect(call).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
});

test('stall-body charges and sends half of the body', async () => {
  const abort = new AbortController();
  const options = { ...wish('stall-body'), signal: abort.signal };
  const response = await simulator.client.messages.create(ask('hello'), options).asResponse();
  const reader = response.body?.getReader();
  const first = await reader?.read();
  expect(first?.value?.length).toBe(Math.floor(Number(response.headers.get('content-length')) / 2));
  const rest = reader?.read() ?? Promise.resolve();
  expect(await stateOf(rest)).toBe('pending');
  abort.abort();
  await expect(rest).rejects.toThrow();
  expect(await simulator.billLines()).toHaveLength(2);
});

test('cut-stream charges and breaks off between the first and the last event', async () => {
  const seen: string[] = [];
  const stream = simulator.client.messages.stream(ask('hello'), wish('cut-stream'));
  stream.on('streamEvent', (event) => seen.push(event.type));
  await expect(stream.finalMessage()).rejects.toThrow();
  expect(seen[0]).toBe('message_start');
  expect(seen).not.toContain('message_delta');
  expect(await simulator.billLines()).toHaveLength(1);
});

test('cut-stream breaks off a plain answer too', async () => {
  await expect(simulator.client.messages.create(ask('hello'), wish('cut-stream'))).rejects.toThrow('terminated');
  expect(await simulator.billLines()).toHaveLength(1);
});

test('charge-and-drop charges and hangs up before the headers', async () => {
  const call = simulator.client.messages.create(ask('hello'), wish('charge-and-drop'));
  await expect(call).rejects.toBeInstanceOf(Anthropic.APIConnectionError);
  expect(await simulator.billLines()).toHaveLength(1);
});

test('with once, only the first request with a body is struck', async () => {
  const header = wish('refuse=529,once');
  await expect(simulator.client.messages.create(ask('hello'), header)).rejects.toMatchObject({ status: 529 });
  await expect(simulator.client.messages.create(ask('hello'), header)).resolves.toBeDefined();
  await expect(simulator.client.messages.create(ask('other'), header)).rejects.toMatchObject({ status: 529 });
});

test('an unknown wish is a malformed request that names what is accepted', async () => {
  const call = simulator.client.messages.create(ask('hello'), wish('explode'));
  await expect(call).rejects.toThrow(/explode.* is not one of .*cut-stream/);
  expect(await simulator.billLines()).toHaveLength(0);
});

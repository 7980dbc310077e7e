import Anthropic from '@anthropic-ai/sdk';
import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { journalBench, question } from '../support/journal-bench.ts';
import type { Exchange } from '../support/scripted-provider.ts';

const bench = journalBench();
/** One dispatch per call: every further request would be a client's own. */
const ONE_DISPATCH = { limits: { maxDispatches: 1 } };

const faults: [string, (exchange: Exchange) => void][] = [
  ['429', (exchange) => exchange.refuse(429, 'rate_limit_error')],
  ['500', (exchange) => exchange.refuse(500, 'api_error')],
  ['529', (exchange) => exchange.refuse(529, 'overloaded_error')],
  ['408', (exchange) => exchange.refuse(408, 'timeout_error')],
  ['409', (exchange) => exchange.refuse(409, 'conflict_error')],
  [
    '400 that asks to be retried',
    (exchange) => exchange.refuse(400, 'invalid_request_error', { 'x-should-retry': 'true' }),
  ],
  ['a connection that breaks', (exchange) => exchange.cut()],
];

/** A client as a user may build one: with retries of its own, on the journaled fetch. */
const ownClient = (task: Task) =>
  new Anthropic({ apiKey: 'dummy', baseURL: bench.provider.url, fetch: task.fetch, maxRetries: 5 });

const ways: [string, (task: Task) => Promise<unknown>][] = [
  ['task.anthropic', (task) => task.anthropic.messages.create(question('one'))],
  ['task.anthropic, streaming', (task) => task.anthropic.messages.stream(question('one')).finalMessage()],
  ['a client with retries of its own', (task) => ownClient(task).messages.create(question('one'))],
  [
    'a client with retries of its own, streaming',
    (task) => ownClient(task).messages.stream(question('one')).finalMessage(),
  ],
];

for (const [fault, strike] of faults)
  for (const [way, call] of ways)
    test(`${way} makes one request of one call when the provider answers with ${fault}`, async () => {
      const batch = await loadTestBatch(bench.db);
      const worker = await bench.workers.add(ONE_DISPATCH);
      bench.provider.script = strike;
      const result = await worker.attempt(batch, call);

      expect(result.ending).toBe('failed');
      expect(bench.provider.requestCount).toBe(1);
      expect((await kindsOf(bench.db, batch)).length).toBe(1);
    });

test('whatever the clients would retry, all requests of one call have a row, and only the journal makes them', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 4 } });
  bench.provider.script = (exchange) => exchange.refuse(529, 'overloaded_error', { 'retry-after': '0.001' });
  await worker.attempt(batch, (task) => ownClient(task).messages.create(question('one')));

  expect(bench.provider.requestCount).toBe(4);
  expect((await kindsOf(bench.db, batch)).length).toBe(4);
});

test('a client that loses patience and repeats its request waits for the first one: only that is sent and paid', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.hold();
  const repeated = Promise.withResolvers<void>();
  const attempt = await worker.start(batch, async (task) => {
    let requests = 0;
    const fetch: typeof task.fetch = (...args) => {
      requests += 1;
      if (requests === 2) repeated.resolve();
      return task.fetch(...args);
    };
    const client = new Anthropic({ apiKey: 'dummy', baseURL: bench.provider.url, fetch, timeout: 500, maxRetries: 9 });
    return (await client.messages.create(question('one'))).id;
  });
  const exchange = await bench.provider.arrival(1);
  await repeated.promise;
  exchange.message();

  expect((await attempt.result).ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
  expect(bench.provider.requestCount).toBe(1);
});

for (const [way, call] of ways)
  test(`${way} gets the same message live and replayed`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add();
    const seen: unknown[] = [];
    const run = async (task: Task) => {
      seen.push(JSON.parse(JSON.stringify(await call(task))));
      if (seen.length === 1) throw new Error('the program breaks here');
    };
    await worker.attempt(batch, run);
    await worker.attempt(batch, run);

    expect(seen[0]).toMatchObject({ content: [{ type: 'text', text: 'answer to one' }] });
    expect(seen[1]).toEqual(seen[0]);
    expect(bench.provider.requestCount).toBe(1);
  });

test('the raw events of a streamed message are the same on replay', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const seen: string[][] = [];
  const run = async (task: Task) => {
    const types: string[] = [];
    seen.push(types);
    for await (const event of await task.anthropic.messages.create({ ...question('one'), stream: true }))
      types.push(event.type);
    if (seen.length === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  await worker.attempt(batch, run);

  expect(seen[0]?.at(-1)).toBe('message_stop');
  expect(seen[1]).toEqual(seen[0]);
});

test('a task’s client speaks to the provider that the worker was told, with the worker’s key', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, (task) => task.anthropic.messages.create(question('one')));

  expect(JSON.stringify(bench.provider.exchanges[0]?.headers)).toMatch(/dummy/);
});

test('counting tokens through a task’s client is journaled as free and replayed', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) =>
    exchange.respond(200, '{"input_tokens":7}', { 'content-type': 'application/json' });
  const seen: number[] = [];
  const { model, messages } = question('one');
  const run = async (task: Task) => {
    seen.push((await task.anthropic.messages.countTokens({ model, messages })).input_tokens);
    if (seen.length === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  await worker.attempt(batch, run);

  expect(seen).toEqual([7, 7]);
  expect(bench.provider.requestCount).toBe(1);
  expect((await taskOf(bench.db, batch)).spent_usd).toBe('0');
});

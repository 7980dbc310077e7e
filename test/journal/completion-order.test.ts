import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { until } from '../support/until.ts';

const bench = journalBench();

/** Asks three things at once, then something that depends on who answered first; breaks in its first run. */
function race(orders: string[][]) {
  return async (task: Task) => {
    const order: string[] = [];
    orders.push(order);
    const note = async (prompt: string) => {
      await ask(task, prompt);
      order.push(prompt);
    };
    await Promise.all(['1', '2', '3'].map(note));
    await ask(task, `first was ${order[0]}`);
    if (orders.length === 1) throw new Error('the program breaks here');
    return order;
  };
}

/** Answers three calls in the order 3, 2, 1, each when the code has got the one before; then whatever comes. */
async function answerBackwards(order: () => string[]): Promise<void> {
  const exchanges = await Promise.all([1, 2, 3].map((number) => bench.provider.arrival(number)));
  for (const [index, prompt] of ['3', '2', '1'].entries()) {
    exchanges.find((exchange) => exchange.prompt === prompt)?.message();
    await until(`the code has got ${index + 1} answers`, () => order().length === index + 1);
  }
  (await bench.provider.arrival(4)).message();
}

test('calls that completed in the order 3, 2, 1 are released in that order on replay, and the code goes the same way', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const orders: string[][] = [];
  bench.provider.hold();
  const first = await worker.start(batch, race(orders));
  await answerBackwards(() => orders[0] ?? []);
  await first.result;
  await worker.attempt(batch, race(orders));

  expect(orders).toEqual([
    ['3', '2', '1'],
    ['3', '2', '1'],
  ]);
  expect(bench.provider.exchanges.slice(3).map((exchange) => exchange.prompt)).toEqual(['first was 3']);
  expect((await taskOf(bench.db, batch)).result).toEqual(['3', '2', '1']);
});

test('between two replayed results the code gets a turn: what it issues then still comes in its old place', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const chain = async (task: Task, name: string, log: string[]) => {
    for (const step of ['a', 'b', 'c']) log.push(await ask(task, `${name}${step}`));
  };
  const logs: string[][] = [];
  const run = async (task: Task) => {
    const log: string[] = [];
    logs.push(log);
    await Promise.all([chain(task, 'x', log), chain(task, 'y', log)]);
    if (logs.length === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  await worker.attempt(batch, run);

  expect(logs[1]).toEqual(logs[0]);
  expect(bench.provider.requestCount).toBe(6);
});

test('a step takes its place among the calls in the order of completion', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const logs: string[][] = [];
  const run = async (task: Task) => {
    const log: string[] = [];
    logs.push(log);
    const quick = Promise.withResolvers<void>();
    const step = task.step('slow', () => quick.promise);
    await Promise.all([
      step.then(() => log.push('step')),
      ask(task, 'quick').then(() => {
        log.push('call');
        quick.resolve();
      }),
    ]);
    if (logs.length === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  await worker.attempt(batch, run);

  expect(logs).toEqual([
    ['call', 'step'],
    ['call', 'step'],
  ]);
});

test('a replayed result waits for the calls that were issued before it came, however late the code issues them', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = async (exchange) => {
    await bench.provider.arrival(2);
    exchange.message();
  };
  const logs: string[][] = [];
  const run = async (task: Task) => {
    const log: string[] = [];
    logs.push(log);
    const first = ask(task, 'first').then(() => log.push('the first is answered'));
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    log.push('the second is issued');
    await Promise.all([first, ask(task, 'second')]);
    if (logs.length === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  await worker.attempt(batch, run);

  expect(logs[0]).toEqual(['the second is issued', 'the first is answered']);
  expect(logs[1]).toEqual(logs[0]);
});

test('an answer too large to be read before it is needed keeps its place', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.hold();
  const logs: string[][] = [];
  const run = async (task: Task) => {
    const log: string[] = [];
    logs.push(log);
    const note = async (name: string) => {
      await ask(task, name);
      log.push(name);
    };
    await Promise.all([note('large'), note('small')]);
    if (logs.length === 1) throw new Error('the program breaks here');
  };
  const first = await worker.start(batch, run);
  const exchanges = await Promise.all([bench.provider.arrival(1), bench.provider.arrival(2)]);
  exchanges.find(({ prompt }) => prompt === 'large')?.message('x'.repeat(300_000));
  await until('the large answer is there', () => logs[0]?.length === 1);
  exchanges.find(({ prompt }) => prompt === 'small')?.message();
  await first.result;
  await worker.attempt(batch, run);

  expect(logs).toEqual([
    ['large', 'small'],
    ['large', 'small'],
  ]);
});

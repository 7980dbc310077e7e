import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { COST_HEADER } from '../../src/journal/issue.ts';
import { PriceBook } from '../../src/provider/prices.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { fetchMessage, journalBench } from '../support/journal-bench.ts';
import { priceOf } from '../support/prices.ts';
import { messageOf } from '../support/scripted-provider.ts';

const bench = journalBench();

/** A run that notes what its call cost, and breaks the first time. */
function noting(costs: (string | null)[]) {
  return async (task: Task) => {
    costs.push((await fetchMessage(task, 'one')).headers.get(COST_HEADER));
    if (costs.length === 1) throw new Error('the program breaks here');
  };
}

test('what a call cost is told with its answer, live and on replay, though prices have changed meanwhile', async () => {
  const batch = await loadTestBatch(bench.db);
  const costs: (string | null)[] = [];
  await (await bench.workers.add()).attempt(batch, noting(costs));
  const later = await bench.workers.add();
  later.env.prices = new PriceBook([priceOf('claude-haiku-4-5', '1970-01-01', '99')]);
  await later.attempt(batch, noting(costs));

  expect(costs.map(Number)).toEqual([0.00011, 0.00011]); // 10 tokens at $1 and 20 at $5 a million
  expect(costs[1]).toBe(costs[0]);
  expect(bench.provider.requestCount).toBe(1);
});

test('an answer of a model without a known price comes without what it cost, live and on replay, whatever the provider says', async () => {
  const batch = await loadTestBatch(bench.db);
  const body = JSON.stringify({ ...messageOf(1, 'x'), model: 'brand-new' });
  bench.provider.script = (exchange) =>
    exchange.respond(200, body, { 'content-type': 'application/json', [COST_HEADER]: '1000' });
  const costs: (string | null)[] = [];
  const worker = await bench.workers.add();
  await worker.attempt(batch, noting(costs));
  await worker.attempt(batch, noting(costs));

  expect(costs).toEqual([null, null]);
});

test('a provider cannot say what a call cost in our name', async () => {
  const batch = await loadTestBatch(bench.db);
  bench.provider.script = (exchange) =>
    exchange.respond(200, JSON.stringify(messageOf(1, 'x')), {
      'content-type': 'application/json',
      [COST_HEADER]: '1000',
    });
  const costs: (string | null)[] = [];
  await (await bench.workers.add()).attempt(batch, noting(costs));

  expect(costs.map(Number)).toEqual([0.00011]);
});

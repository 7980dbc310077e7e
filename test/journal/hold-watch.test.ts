import Big from 'big.js';
import { expect, test } from 'vitest';
import { HoldWatch } from '../../src/journal/hold-watch.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { fetchBody, journalBench, question } from '../support/journal-bench.ts';

const bench = journalBench();

/** A request as an SDK makes it that asks for the most there is. */
const body = (prompt: string, most: number) => JSON.stringify({ ...question(prompt), max_tokens: most });

test('a call that may cost more than a tenth of its task’s budget is warned of once, with what to do', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2, limits: { taskBudgetUsd: '3.00' } });
  const warnings: string[] = [];
  const worker = await bench.workers.add({ onHoldWarning: (message) => warnings.push(message) });
  for (let task = 1; task <= 2; task += 1)
    await worker.attempt(batch, async (task) => {
      for (const prompt of ['one', 'two']) await fetchBody(task, body(prompt, 64_000));
    });

  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(
    /^a call of model claude-haiku-4-5 asks for up to 64000 output tokens, so US\$ 0\.32\d* are/,
  );
  expect(warnings[0]).toContain('more than a tenth of the US$ 3 that its whole task may spend');
  expect(warnings[0]).toContain('--max-output-tokens N');
});

test('no warning of a call that asks for as much as it may need, nor where the batch lowers what is asked', async () => {
  const [modest, lowered] = [
    await loadTestBatch(bench.db, { limits: { taskBudgetUsd: '1.00' } }),
    await loadTestBatch(bench.db, { limits: { taskBudgetUsd: '1.00', maxOutputTokens: 500 } }),
  ];
  const warnings: string[] = [];
  const worker = await bench.workers.add({ onHoldWarning: (message) => warnings.push(message) });
  await worker.attempt(modest, (task) => fetchBody(task, body('one', 1_000)));
  await worker.attempt(lowered, (task) => fetchBody(task, body('one', 64_000)));
  expect(warnings).toEqual([]);
});

test('without a task budget, twenty times what such calls have cost is warned of, once ten have been paid', async () => {
  const batch = await loadTestBatch(bench.db);
  const warnings: string[] = [];
  const worker = await bench.workers.add({ onHoldWarning: (message) => warnings.push(message) });
  let afterTen = -1;
  await worker.attempt(batch, async (task) => {
    for (let call = 1; call <= 10; call += 1) await fetchBody(task, body(`call ${call}`, 64_000)); // US$ 0.00011 each
    afterTen = warnings.length;
    await fetchBody(task, body('call 11', 64_000));
  });

  expect(afterTen).toBe(0);
  expect(warnings).toEqual([expect.stringContaining('times the US$ 0.00011 that such a call has cost on average')]);
});

test('each batch and each model has a warning of its own', () => {
  const warned: string[] = [];
  const watch = new HoldWatch((batchKey) => warned.push(batchKey));
  const hold = { usd: new Big('0.2'), outputTokens: 128_000, taskBudget: new Big('1') };
  for (const [batchKey, model] of [
    ['a', 'x'],
    ['a', 'x'],
    ['a', 'y'],
    ['b', 'x'],
  ] as const)
    watch.see({ batchKey, model, ...hold });
  expect(warned).toEqual(['a', 'a', 'b']);
});

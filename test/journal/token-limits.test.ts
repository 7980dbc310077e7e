import { expect, test } from 'vitest';
import { kindsOf, loadTestBatch } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import type { Exchange } from '../support/scripted-provider.ts';
import { until } from '../support/until.ts';

const bench = journalBench();

/** Refuses on account of load, and announces how many output tokens a minute there are; all of them are left. */
function refuseAnnouncing(limit: number, exchange: Exchange): void {
  exchange.refuse(429, 'rate_limit_error', {
    'retry-after': '0.001',
    'anthropic-ratelimit-requests-limit': '6000000',
    'anthropic-ratelimit-output-tokens-limit': String(limit),
    'anthropic-ratelimit-output-tokens-remaining': String(limit),
  });
}

/** How many output tokens the fleet takes to be used of a bucket that holds so many. */
async function usedOf(limit: number): Promise<number> {
  const { rows } = await bench.db.pool.query<{ seconds: number }>(
    'SELECT extract(epoch FROM output_full_at - madrugada.now())::float8 AS seconds FROM madrugada.provider_pace',
  );
  return ((rows[0]?.seconds ?? 0) * limit) / 60;
}

const LIMIT = 600;

test('under way a call counts with its max_tokens, and afterwards with what it wrote', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => {
    if (exchange.number === 1) refuseAnnouncing(LIMIT, exchange);
  };
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(2);
  const during = await usedOf(LIMIT);
  exchange.message(); // of 20 tokens
  await attempt.result;
  await until('the fleet has heard of its end', async () => (await usedOf(LIMIT)) <= 20);

  expect(during).toBeGreaterThan(20);
  expect(during).toBeLessThanOrEqual(100);
});

test('a call that finds too few tokens left is put off, and goes out once another has used fewer than it had taken', async () => {
  const [first, second] = [await loadTestBatch(bench.db), await loadTestBatch(bench.db)];
  // 120 a minute: beside the 100 that one may use, another has to wait for most of a minute
  const worker = await bench.workers.add({ limits: { maxWaitMs: 5_000 } });
  bench.provider.script = (exchange) => {
    if (exchange.number === 1) refuseAnnouncing(120, exchange);
    if (exchange.number > 2) exchange.message();
  };
  const one = await worker.start(first, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(2);
  const parked = await worker.attempt(second, (task) => ask(task, 'two'));
  exchange.message();
  await one.result;
  await until('the fleet has heard of its end', async () => (await usedOf(120)) <= 20);
  await bench.db.pool.query('UPDATE madrugada.task SET not_before = madrugada.now() WHERE batch_key = $1', [second]);
  const result = await worker.attempt(second, (task) => ask(task, 'two'));

  expect(parked).toMatchObject({ ending: 'parked', message: expect.stringContaining('asked to slow down') });
  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.db, second)).toEqual(['1.1 charged']);
});

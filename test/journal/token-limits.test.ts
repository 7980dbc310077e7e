import { beforeAll, expect, test } from 'vitest';
import { kindsOf, loadTestBatch, type TestWorker } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { stopClock } from '../support/move-clock.ts';
import { until } from '../support/until.ts';

const bench = journalBench();
// else the buckets fill while the tests look at them
beforeAll(() => stopClock(bench.db));

/** Has the fleet refused once, and told how many output tokens a minute there are; all of them are left. The worker knows of it. */
async function announce(worker: TestWorker, limit: number): Promise<void> {
  bench.provider.script = (exchange) => {
    if (exchange.number > 1) return exchange.refuse(400, 'invalid_request_error'); // nothing is used
    exchange.refuse(429, 'rate_limit_error', {
      'retry-after': '0.001',
      'anthropic-ratelimit-requests-limit': '6000000',
      'anthropic-ratelimit-output-tokens-limit': String(limit),
      'anthropic-ratelimit-output-tokens-remaining': String(limit),
    });
  };
  await worker.attempt(await loadTestBatch(bench.db), (task) => ask(task, 'refused at first'));
  await until('the fleet is told', async () => (await worker.env.pace.refresh()) === 1);
  bench.provider.forget();
  bench.provider.hold();
}

/** How many output tokens the fleet takes to be used of a bucket that holds so many. */
async function usedOf(limit: number): Promise<number> {
  const { rows } = await bench.db.pool.query<{ seconds: number }>(
    'SELECT extract(epoch FROM output_full_at - madrugada.now())::float8 AS seconds FROM madrugada.provider_pace',
  );
  return Math.max(0, Math.round(((rows[0]?.seconds ?? 0) * limit) / 60));
}

test('under way a call counts with its max_tokens, and afterwards with what it wrote', async () => {
  const worker = await bench.workers.add();
  await announce(worker, 600);
  const before = await usedOf(600);
  const attempt = await worker.start(await loadTestBatch(bench.db), (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(1);
  const during = await usedOf(600);
  exchange.message(); // of 20 tokens
  await attempt.result;
  await until('the fleet has heard of its end', async () => (await usedOf(600)) < during);
  const after = await usedOf(600);

  expect([before, during, after]).toEqual([0, 100, 20]);
});

test('a call that finds too few tokens left is put off, and goes out once another has used fewer than it had taken', async () => {
  const [first, second] = [await loadTestBatch(bench.db), await loadTestBatch(bench.db)];
  const worker = await bench.workers.add({ limits: { maxWaitMs: 5_000 } });
  await announce(worker, 150);
  const one = await worker.start(first, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(1);
  const parked = await worker.attempt(second, (task) => ask(task, 'two')); // beside the 100 that one may use, there is room in half a minute
  exchange.message();
  await one.result;
  await until('the fleet has heard of its end', async () => (await usedOf(150)) === 20);
  await bench.db.pool.query(
    "UPDATE madrugada.task SET not_before = madrugada.now() WHERE batch_key = $1 AND state = 'pending'",
    [second],
  );
  bench.provider.script = (exchange) => exchange.message();
  const result = await worker.attempt(second, (task) => ask(task, 'two'));

  expect(parked).toMatchObject({ ending: 'parked', message: expect.stringContaining('asked to slow down') });
  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.db, second)).toEqual(['1.1 charged']);
});

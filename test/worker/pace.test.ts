import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import type { Exchange } from '../support/scripted-provider.ts';
import { until } from '../support/until.ts';
import { said, untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const AGENT = fileURLToPath(new URL('../support/agents/three-questions.ts', import.meta.url));
const SLOW_DOWN = 'asked to slow down';

afterEach(async () => {
  await bench.db.pool.query('DELETE FROM madrugada.provider_pace');
});

/** Refuses one request for longer than any slot sits out, and leaves all others unanswered. */
function refuseRequest(number: number) {
  return (exchange: Exchange) => {
    if (exchange.number === number) exchange.refuse(429, 'rate_limit_error', { 'retry-after': '3600' });
  };
}

/** Waits until the batch's only task is put off because a provider refused. */
async function putOff(batch: string): Promise<void> {
  await until('the task waits for the provider', async () => (await taskOf(bench.db, batch)).waiting_for === 'refusal');
}

test('a refusal that one worker meets slows down another, whose next call is not sent', async () => {
  const [held, refused] = [
    await loadTestBatch(bench.db, { agent: AGENT }),
    await loadTestBatch(bench.db, { agent: AGENT }),
  ];
  bench.provider.script = refuseRequest(2);
  const other = bench.processes.worker('host-b/1', held);
  const first = await bench.provider.arrival(1);
  bench.processes.worker('host-a/1', refused);
  await putOff(refused);
  await said(other, SLOW_DOWN);
  first.message();
  await putOff(held);

  expect(bench.provider.requestCount).toBe(2);
  const task = await taskOf(bench.db, held);
  expect(Number(task.not_before) - Date.now()).toBeGreaterThan(3_500_000);
});

test('a worker that starts after a refusal keeps the pace from its first call on', async () => {
  const [refused, later] = [
    await loadTestBatch(bench.db, { agent: AGENT }),
    await loadTestBatch(bench.db, { agent: AGENT }),
  ];
  bench.provider.script = refuseRequest(1);
  const first = bench.processes.worker('host-a/1', refused);
  await putOff(refused);
  await bench.processes.stop(first);
  bench.processes.worker('host-b/1', later);
  await putOff(later);

  expect(bench.provider.requestCount).toBe(1);
});

test('a refusal of which the fleet cannot be told is said with the task and the provider, and its call goes on', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.script = (exchange) => {
    if (exchange.number === 1) exchange.refuse(429, 'rate_limit_error', { 'retry-after-ms': '5' });
    else exchange.message();
  };
  await bench.db.pool.query('ALTER FUNCTION madrugada.note_pace RENAME TO mislaid');
  try {
    const worker = bench.processes.worker('host-a/1', batch);
    await untilDone(bench.db, batch);
    await said(worker, 'a refusal could not be told to the fleet');
    for (const detail of [`"task":"${batch.replace(':', ':1:')}"`, `"provider":"${bench.provider.url}"`, 'note_pace'])
      await said(worker, detail);
  } finally {
    await bench.db.pool.query('ALTER FUNCTION madrugada.mislaid RENAME TO note_pace');
  }

  expect((await taskOf(bench.db, batch)).state).toBe('completed');
});

test('a batch whose provider refuses now and then is completed all the same', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT, tasks: 4 });
  bench.provider.script = (exchange) => {
    if (exchange.number % 4 === 0)
      exchange.refuse(429, 'rate_limit_error', { 'retry-after-ms': '5', 'anthropic-ratelimit-requests-limit': '6000' });
    else exchange.message();
  };
  bench.processes.worker('host-a/1', batch, { concurrency: 4 });
  await untilDone(bench.db, batch);

  expect((await taskOf(bench.db, batch)).state).toBe('completed');
});

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { loadTestBatch } from '../support/attempts.ts';
import { untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const SLOTS = 64;
const LONG_ANSWER = 'a long answer '.repeat(5_000);
const LIMIT_KB = 400 * 1024;

test('a worker process with 64 slots that all run a task stays below 400 MB', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 * SLOTS });
  bench.provider.hold();
  const worker = bench.processes.worker('many', batch, { concurrency: SLOTS });
  await bench.provider.arrival(SLOTS); // every slot has a call in flight
  bench.provider.script = (exchange) => exchange.message(LONG_ANSWER);
  for (const exchange of [...bench.provider.exchanges]) exchange.message(LONG_ANSWER);
  await untilDone(bench.db, batch);
  const status = readFileSync(`/proc/${worker.process.pid}/status`, 'utf8');
  const peakKb = Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]);

  expect(peakKb).toBeGreaterThan(0);
  expect(peakKb).toBeLessThan(LIMIT_KB);
});

import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { loadTestBatch } from '../support/attempts.ts';
import { untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const AGENT = fileURLToPath(new URL('../support/agents/three-questions.ts', import.meta.url));

test('a worker says in its log, once, that holds are absurd and how to lower them', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT, limits: { taskBudgetUsd: '0.01' } });
  const worker = bench.processes.worker('host-a/1', batch);
  await untilDone(bench.db, batch);
  const { stderr } = await bench.processes.stop(worker);
  const warnings = stderr.split('\n').filter((line) => line.includes('--max-output-tokens'));

  expect(warnings).toHaveLength(1);
  expect(JSON.parse(warnings[0] ?? '')).toMatchObject({ level: 40, batch });
});

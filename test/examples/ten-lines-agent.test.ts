import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import agent from '../../examples/agents/ten-lines.ts';
import { checkSchema } from '../../src/agent/define-agent.ts';
import { readTasks } from '../../src/batch/read-tasks.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { nightSimulator } from '../support/night-simulator.ts';
import { workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const AGENT = fileURLToPath(new URL('../../examples/agents/ten-lines.ts', import.meta.url));
const QUESTIONS = fileURLToPath(new URL('../../examples/agents/questions.csv', import.meta.url));

test('the ten-line agent has no more than ten lines beside its imports', () => {
  const lines = readFileSync(AGENT, 'utf8').trimEnd().split('\n');
  const code = lines.filter((line) => line !== '' && !/^(import|\/\/)/.test(line));

  expect(code.length).toBeLessThanOrEqual(10);
});

test('the example questions go through a night with it: question in, text out', async () => {
  const inputs: object[] = [];
  const problemsOf = async (input: unknown) => (await checkSchema(agent.input, input)).problems ?? [];
  for await (const { inputJson } of readTasks(QUESTIONS, problemsOf)) inputs.push(JSON.parse(inputJson));
  const batch = await loadTestBatch(bench.db, { inputs, agent: AGENT });
  const simulator = await nightSimulator();
  const night = bench.processes.night(batch, { environment: { ANTHROPIC_BASE_URL: simulator.url } });

  expect((await night.result).code).toBe(0);
  expect(await simulator.billLines()).toHaveLength(inputs.length);
  for (const index of inputs.keys())
    expect(await taskOf(bench.db, batch, index + 1)).toMatchObject({
      state: 'completed',
      result: { text: expect.stringMatching(/\p{L}/u) },
    });
});

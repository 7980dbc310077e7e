import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { problemsOf, runBudgetNight } from './run-budget-night.ts';

/** Nights with a budget that allows half of them, again and again. Exits 1 if one of them is not as it must be. */
const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '10' },
    tasks: { type: 'string', default: '100' },
    workers: { type: 'string', default: '4' },
    concurrency: { type: 'string', default: '16' },
  },
});
const tasks = Number(values.tasks);
for (let run = 1; run <= Number(values.runs); run += 1) {
  const folder = mkdtempSync(join(tmpdir(), 'madrugada-budget-'));
  const startedAt = performance.now();
  const night = await runBudgetNight(folder, tasks, Number(values.workers), Number(values.concurrency));
  const problems = problemsOf(night, tasks);
  const { budget, billed, holdRatio, completed, afterwards } = night;
  process.stdout.write(
    `run ${run}: US$ ${billed.toFixed()} of ${budget.toFixed()} (${billed.div(budget).times(100).toFixed(1)}%), holds from ${holdRatio.toFixed(1)} times the cost, ` +
      `${completed} of ${tasks} completed; after raising it ${afterwards.completed}, ${afterwards.charges} charges (${((performance.now() - startedAt) / 1000).toFixed(0)} s)\n`,
  );
  for (const problem of problems) process.stdout.write(`WRONG: ${problem}\n`);
  if (problems.length > 0) process.exitCode = 1;
  else rmSync(folder, { recursive: true });
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { problemsOf, runStopNight } from './run-stop-night.ts';

/** Nights at full speed that a person stops and resumes, every second one with `--now`. Exits 1 if one of them is not as it must be. */
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
  const folder = mkdtempSync(join(tmpdir(), 'madrugada-stop-'));
  const startedAt = performance.now();
  const now = run % 2 === 0;
  const sizes = { tasks, workers: Number(values.workers), concurrency: Number(values.concurrency), now };
  const night = await runStopNight(folder, sizes);
  const problems = problemsOf(night, sizes);
  const { inFlight, lastChargeMs, doubts, afterwards } = night;
  process.stdout.write(
    `run ${run}, stop${now ? ' --now' : ''}: the last charge arrived ${lastChargeMs} ms after the command's return; in flight ${JSON.stringify(inFlight)}, ` +
      `${doubts} in doubt; after the resumption ${afterwards.completed} of ${tasks} completed, ${afterwards.charges} charges, ` +
      `${afterwards.duplicates} duplicates (${((performance.now() - startedAt) / 1000).toFixed(0)} s)\n`,
  );
  for (const problem of problems) process.stdout.write(`WRONG: ${problem}\n`);
  if (problems.length > 0) process.exitCode = 1;
  else rmSync(folder, { recursive: true });
}

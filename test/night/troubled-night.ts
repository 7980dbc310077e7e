import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openPool } from '../../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { runTroubledNight } from './run-troubled-night.ts';

/** A night in which a fifth of all dispatches meet trouble, and the provider's limit is met. Exits 1 if a claim about it does not hold. */
const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: '100' },
    seed: { type: 'string', default: String(Date.now() % 1e6) },
    workers: { type: 'string', default: '3' },
    concurrency: { type: 'string', default: '8' },
  },
});
const folder = mkdtempSync(join(tmpdir(), 'madrugada-troubled-'));
chmodSync(folder, 0o755); // a server that root starts must reach it
const home = join(folder, 'home');
mkdirSync(home);
const { url } = await startEmbedded(home);
const pool = openPool({ url, applicationName: 'madrugada troubled night', max: 2 });
const startedAt = performance.now();
try {
  await migrate(url);
  const { tasks, seed, workers, concurrency } = values;
  const counts = { tasks: Number(tasks), workers: Number(workers), concurrency: Number(concurrency) };
  const { problems, figures, fates } = await runTroubledNight({ url, pool, folder, seed, ...counts });
  const lines = [
    `${tasks} tasks, seed ${seed}, ${workers} workers of ${concurrency} slots: ${((performance.now() - startedAt) / 1000).toFixed(0)} s`,
    ...figures.map(({ words, number }) => `${words}: ${number}`),
    [...fates].map(([fate, count]) => `${fate} ${count}`).join(', '),
    ...problems.map((problem) => `WRONG: ${problem}`),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
  if (problems.length > 0) process.exitCode = 1;
} finally {
  await pool.end();
  await stopEmbedded(home);
  if (process.exitCode === 1) process.stdout.write(`bill, arrivals and database are kept in ${folder}\n`);
  else rmSync(folder, { recursive: true });
}

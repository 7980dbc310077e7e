import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Pool } from 'pg';
import { importBill } from '../../src/bill/import-bill.ts';
import { openPool } from '../../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { namedInDoubt, readBillAlone } from '../../src/rehearsal/figures.ts';
import { NightProcess } from '../../src/rehearsal/night-process.ts';
import { loadRehearsalBatch } from '../../src/rehearsal/rehearsal-batch.ts';
import { startSimulatedProvider } from '../../src/rehearsal/simulated-provider.ts';
import { until } from '../../src/rehearsal/until.ts';
import { randomFrom } from '../support/random.ts';

/** One kill in this many hits the database instead of a worker. */
const DATABASE_SHARE = 8;
const TASKS = 60;
const CALLS_PER_TASK = 25;

/**
 * A night in which workers, and now and then the database, are killed at random moments. Prints what happened; exits 1 if an answer was lost
 * or a charge was doubled without having been named in doubt. The moments are counts of recorded answers, drawn from the seed.
 */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { kills: { type: 'string', default: '50' }, seed: { type: 'string', default: String(Date.now() % 1e6) } },
  });
  const kills = Number(values.kills);
  process.stdout.write(`${TASKS} tasks, ${kills} kills, seed ${values.seed}\n`);
  const home = mkdtempSync(join(tmpdir(), 'madrugada-chaos-'));
  // a night on the embedded server, which its supervisor starts again
  const { url } = await startEmbedded(home);
  await migrate(url);
  const batchKey = await loadRehearsalBatch(url, { tasks: TASKS, crashAt: 215, leaseSeconds: 600 });
  const provider = await startSimulatedProvider(join(home, 'bill.jsonl'), [
    '--latency-ms',
    '5-50',
    '--seed',
    values.seed,
  ]);
  const pool = openPool({ url, applicationName: 'madrugada chaos', max: 2 });
  const { DATABASE_URL: _, ...environment } = process.env;
  const night = new NightProcess({
    batchKey,
    workers: 4,
    log: join(home, 'night.log'),
    environment: { ...environment, ...provider.environment, MADRUGADA_LOOK_UP: '', MADRUGADA_HOME: home },
  });
  let isSound = false;
  try {
    const random = randomFrom(Number(values.seed));
    const moments = Array.from({ length: kills }, () => Math.floor(random() * 0.95 * TASKS * CALLS_PER_TASK));
    for (const moment of moments.sort((a, b) => a - b)) {
      await until(`${moment} answers`, async () => night.hasEnded || (await answered(pool, batchKey)) >= moment);
      if (night.hasEnded) break; // what is wrong with it is said below
      if (random() * DATABASE_SHARE < 1) await killDatabase(home, pool);
      else await killWorker(pool, random);
    }
    await night.finished();
    isSound = await judge(pool, batchKey, provider.bill);
  } finally {
    await provider.stop();
    await pool.end();
    await stopEmbedded(home);
    if (isSound) rmSync(home, { recursive: true });
    else process.stdout.write(`\nbill, log and database are kept in ${home}\n`);
  }
  if (!isSound) process.exitCode = 1;
}

/** The database may be away: then nothing is known, and it is asked again. */
async function answered(pool: Pool, batchKey: string): Promise<number> {
  try {
    const { rows } = await pool.query<{ count: number }>(
      `SELECT count(*) AS count FROM madrugada.call_outcome WHERE batch_key = $1 AND kind = 'charged'`,
      [batchKey],
    );
    return rows[0]?.count ?? 0;
  } catch {
    return 0;
  }
}

async function killDatabase(home: string, pool: Pool): Promise<void> {
  await stopEmbedded(home, 'immediate');
  await until('the supervisor to start the database again', () => pool.query('SELECT 1').catch(() => undefined));
  process.stdout.write('D');
}

/** Kills any worker that has begun a task or not; one is always there, since the supervisor starts them again. */
async function killWorker(pool: Pool, random: () => number): Promise<void> {
  await until('a worker to kill', async () => {
    const { rows } = await pool
      .query<{ pid: number }>('SELECT pid FROM madrugada.worker WHERE ended_at IS NULL ORDER BY id')
      .catch(() => ({ rows: [] }));
    const victim = rows[Math.floor(random() * rows.length)];
    return victim !== undefined && kill(victim.pid);
  });
  process.stdout.write('w');
}

function kill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false; // it has just gone
  }
}

async function judge(pool: Pool, batchKey: string, bill: string): Promise<boolean> {
  const named = await namedInDoubt({ pool, batchKey });
  const client = await pool.connect();
  await importBill(client, batchKey, bill, 'chaos').finally(() => client.release());
  const charges = await readBillAlone(bill);
  const { rows: duplicates } = await pool.query<{ call: string }>(
    `SELECT key || ' ' || seq AS call FROM madrugada.audit_duplicate_charges WHERE batch_key = $1`,
    [batchKey],
  );
  const { rows: tasks } = await pool.query<{ answered: number; lost: number }>(
    `SELECT count(*) FILTER (WHERE state = 'completed' AND result IS NOT NULL) AS answered,
            (SELECT count(*) FROM madrugada.attempt WHERE ending = 'lost') AS lost
       FROM madrugada.task WHERE batch_key = $1`,
    [batchKey],
  );
  const completed = tasks[0]?.answered ?? 0;
  const unnamed = duplicates.filter(({ call }) => !named.has(call));
  process.stdout.write(
    `\n${completed} of ${TASKS} tasks completed, ${charges.calls} charges, ${charges.duplicates} duplicates, ` +
      `${named.size} calls named in doubt, ${tasks[0]?.lost ?? 0} attempts lost\n`,
  );
  const wrong = [
    ...(completed === TASKS ? [] : ['answers were lost']),
    ...(charges.calls - charges.duplicates === TASKS * CALLS_PER_TASK ? [] : ['calls are missing from the bill']),
    ...(duplicates.length === charges.duplicates ? [] : ['bill and audit view count different duplicates']),
    ...unnamed.map(({ call }) => `call ${call} was charged twice and never in doubt`),
  ];
  for (const line of wrong) process.stdout.write(`WRONG: ${line}\n`);
  return wrong.length === 0;
}

await main();

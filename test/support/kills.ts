import type { Pool } from 'pg';
import { findPostmaster } from '../../src/postgres/postmaster.ts';
import { dataDirectory, readRecord } from '../../src/postgres/server-record.ts';
import { until } from '../../src/rehearsal/until.ts';
import { randomFrom } from './random.ts';

/** One kill in this many hits the database instead of a worker. */
const DATABASE_SHARE = 6;
/** The last kill comes early enough to find the night at work. */
const LAST_MOMENT = 0.9;

/** What is killed, and when: after so many recorded calls. */
export interface Kill {
  moment: number;
  target: 'worker' | 'database';
}

/** Kills over a night of `calls` calls: one at a random moment of each equal part of it. Only the seed decides. */
export function planKills(count: number, calls: number, seed: number): Kill[] {
  const random = randomFrom(seed);
  return Array.from({ length: count }, (_, part) => ({
    moment: Math.floor(((part + random()) / count) * LAST_MOMENT * calls),
    target: random() * DATABASE_SHARE < 1 ? 'database' : 'worker',
  }));
}

/** A night that is to be struck. */
export interface Victim {
  /** The home of its embedded server. */
  home: string;
  pool: Pool;
  batchKey: string;
  hasEnded: () => boolean;
}

/** Kills with SIGKILL as planned. Returns the kills that found the night at work; fewer only when it ended before. */
export async function killThrough(victim: Victim, plan: readonly Kill[], seed: number): Promise<Kill[]> {
  const random = randomFrom(seed + 1);
  const done: Kill[] = [];
  for (const kill of plan) {
    const { moment, target } = kill;
    await until(`${moment} calls`, async () => victim.hasEnded() || (await recordedCalls(victim)) >= moment);
    if (victim.hasEnded()) break;
    if (target === 'database') await killDatabase(victim);
    else await killWorker(victim, random);
    if (victim.hasEnded()) break;
    done.push(kill);
  }
  return done;
}

/** The database may be away: then nothing is known, and it is asked again. */
async function recordedCalls({ pool, batchKey }: Victim): Promise<number> {
  const { rows } = await pool
    .query<{ count: number }>(
      `SELECT count(*) AS count FROM madrugada.call_outcome WHERE batch_key = $1 AND kind = 'charged'`,
      [batchKey],
    )
    .catch(() => ({ rows: [] }));
  return rows[0]?.count ?? 0;
}

/** Kills the server process, and waits until the supervisor of the night has started another. */
async function killDatabase({ home, hasEnded }: Victim): Promise<void> {
  const record = readRecord(home);
  if (record === undefined) throw new Error(`there is no server in ${home}`);
  const data = dataDirectory(home, record);
  const old = await until('a database to kill', async () => findPostmaster(data));
  process.kill(old.pid, 'SIGKILL');
  await until('the supervisor to start the database again', async () => {
    const server = findPostmaster(data);
    return hasEnded() || (server?.ready === true && server.pid !== old.pid);
  });
}

/** Kills any worker, whether or not it has begun a task; there is always one, since the supervisor starts them again. */
async function killWorker({ pool, hasEnded }: Victim, random: () => number): Promise<void> {
  await until('a worker to kill', async () => {
    const { rows } = await pool
      .query<{ pid: number }>('SELECT pid FROM madrugada.worker WHERE ended_at IS NULL ORDER BY id')
      .catch(() => ({ rows: [] }));
    const worker = rows[Math.floor(random() * rows.length)];
    return hasEnded() || (worker !== undefined && kill(worker.pid));
  });
}

function kill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false; // it has just gone
  }
}

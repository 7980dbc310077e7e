import { mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pool } from 'pg';
import { importBill } from '../../src/bill/import-bill.ts';
import { openPool } from '../../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { readBillAlone } from '../../src/rehearsal/figures.ts';
import { loadRehearsalBatch } from '../../src/rehearsal/rehearsal-batch.ts';
import { startSimulatedProvider } from '../../src/rehearsal/simulated-provider.ts';
import type { BillLine } from '../../src/simulator/bill-file.ts';
import { runCommand, startCommand } from '../support/command.ts';
import { until } from '../support/until.ts';

/** Nothing that arrives at the provider later than this after the command has returned may be charged, in milliseconds. */
export const LATEST_MS = 2_000;
/** The night counts as running at full speed from so many charges on, with a call in flight for every slot. */
const CHARGES_BEFORE = 100;
const CALLS_PER_QUESTION = 25;
/** Long enough that calls are in flight at any moment. */
const LATENCY_MS = '500-1500';

export interface StopNight {
  /** What was in flight when the stop was given, by how it ended: as `charged`, `unknown`, … */
  inFlight: Record<string, number>;
  /** From the command's return to the arrival of the last dispatch that was charged, in milliseconds; negative: it had arrived before. */
  lastChargeMs: number;
  /** Charges that arrived later than `LATEST_MS` after the command had returned. */
  late: number;
  /** Before anybody resumes: tasks that still run, listed doubts, and of the bill's lines those that are neither recorded nor listed. */
  running: number;
  doubts: number;
  unexplained: number;
  /** After a person has resumed: what the whole night came to, by the bill alone and against the journal. */
  afterwards: { completed: number; charges: number; duplicates: number; unmatched: number };
}

/**
 * One night at full speed on `workers` times `concurrency` slots that a person stops from another place, with `--now` or without, resumes,
 * and runs to its end.
 */
export async function runStopNight(
  folder: string,
  { tasks, workers, concurrency, now }: { tasks: number; workers: number; concurrency: number; now: boolean },
): Promise<StopNight> {
  const home = join(folder, 'home');
  const elsewhere = join(folder, 'elsewhere');
  mkdirSync(elsewhere, { recursive: true });
  const { url } = await startEmbedded(home);
  await migrate(url);
  const pool = openPool({ url, applicationName: 'madrugada stop night', max: 2 });
  const provider = await startSimulatedProvider(join(folder, 'bill.jsonl'), ['--latency-ms', LATENCY_MS]);
  const environment = { MADRUGADA_HOME: home, ...provider.environment };
  const words = ['run', 'rehearsal', '--json', '--workers', String(workers), '--concurrency', String(concurrency)];
  const said = ['--by', 'ana', '--reason', 'the bill looks wrong'];
  const person = (...command: string[]) =>
    runCommand([...command, ...said], { folder: elsewhere, environment: { DATABASE_URL: url } });
  const night = { key: '', pool, bill: provider.bill };
  try {
    night.key = await loadRehearsalBatch(url, { tasks, crashAt: 215, leaseSeconds: 600 });
    const running = startCommand(words, { folder, environment });
    await untilFullSpeed(night, workers * concurrency);
    await person('stop', ...(now ? ['--now'] : []));
    const returnedAt = Date.now();
    await running.result;
    const stopped = await readStopped(night);
    const resumedAt = Date.now();
    await person('resume');
    await runCommand(words, { folder, environment });
    const arrivals = (await billLines(provider.bill))
      .map(({ received_at }) => Date.parse(received_at))
      .filter((at) => at < resumedAt)
      .map((at) => at - returnedAt);
    return {
      ...stopped,
      lastChargeMs: Math.max(...arrivals),
      late: arrivals.filter((ms) => ms > LATEST_MS).length,
      afterwards: await readAfterwards(night),
    };
  } finally {
    await provider.stop();
    await pool.end();
    await stopEmbedded(home);
  }
}

interface Night {
  key: string;
  pool: Pool;
  bill: string;
}

async function untilFullSpeed({ key, pool, bill }: Night, slots: number): Promise<void> {
  await until('the night runs at full speed', async () => {
    if ((await billLines(bill)).length < CHARGES_BEFORE) return false;
    const { rows } = await pool.query<{ inFlight: number }>(
      `SELECT count(*)::integer AS "inFlight" FROM madrugada.call_intent i
        WHERE i.batch_key = $1 AND NOT EXISTS (SELECT FROM madrugada.call_outcome o
          WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch)`,
      [key],
    );
    return (rows[0]?.inFlight ?? 0) >= slots;
  });
}

async function readStopped({ key, pool, bill }: Night) {
  // stopped_at is when the stop's transaction began: what was sent until it was committed was in flight as well, and nothing is sent after
  const { rows: kinds } = await pool.query<{ kind: string; count: number }>(
    `SELECT coalesce(c.kind::text, 'nothing') AS kind, count(*)::integer
       FROM madrugada.call c, madrugada.stop_switch s
      WHERE c.batch_key = $1 AND s.lifted_at IS NULL AND coalesce(c.received_at, 'infinity') > s.stopped_at
      GROUP BY 1`,
    [key],
  );
  const tags = (await billLines(bill)).map(({ tag }) => tag);
  const { rows } = await pool.query<{ running: number; doubts: number; explained: number }>(
    `SELECT (SELECT count(*)::integer FROM madrugada.task WHERE batch_key = $1 AND state = 'running') AS running,
            (SELECT count(*)::integer FROM madrugada.audit_in_doubt WHERE batch_key = $1) AS doubts,
            (SELECT count(*)::integer FROM unnest($2::text[]) billed (tag) JOIN madrugada.call c ON c.batch_key = $1 AND c.tag = billed.tag
              WHERE c.kind IN ('charged', 'recovered') OR EXISTS (
                SELECT FROM madrugada.audit_in_doubt d WHERE d.batch_key = $1 AND d.tag = c.tag)) AS explained`,
    [key, tags],
  );
  const [row] = rows;
  if (row === undefined) throw new Error(`no batch ${key}`);
  const inFlight = Object.fromEntries(kinds.map(({ kind, count }) => [kind, count]));
  return { inFlight, running: row.running, doubts: row.doubts, unexplained: tags.length - row.explained };
}

async function readAfterwards({ key, pool, bill }: Night): Promise<StopNight['afterwards']> {
  const client = await pool.connect();
  try {
    await importBill(client, key, bill, 'stop night');
    const { rows } = await client.query<{ completed: number; unmatched: number }>(
      `SELECT t.completed::integer, (SELECT count(*)::integer FROM madrugada.audit_unmatched u WHERE u.batch_key = $1) AS unmatched
         FROM madrugada.audit_batch_totals t WHERE t.batch_key = $1`,
      [key],
    );
    const { calls: charges, duplicates } = await readBillAlone(bill);
    const [row] = rows;
    return { completed: row?.completed ?? 0, unmatched: row?.unmatched ?? 0, charges, duplicates };
  } finally {
    client.release();
  }
}

/** The lines that are whole: the provider may be writing another. */
async function billLines(path: string): Promise<BillLine[]> {
  const text = await readFile(path, 'utf8');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line): BillLine => JSON.parse(line));
}

/** What is not as it must be, in words. `now`: the stop was one that does not wait. */
export function problemsOf(night: StopNight, { tasks, now }: { tasks: number; now: boolean }): string[] {
  const { inFlight, afterwards } = night;
  const all = Object.values(inFlight).reduce((sum, count) => sum + count, 0);
  const unknown = inFlight.unknown ?? 0;
  return [
    ...(night.late > 0
      ? [`${night.late} charges arrived more than ${LATEST_MS} ms after the command had returned`]
      : []),
    ...(all < 32 ? [`only ${all} calls were in flight: that is no night at full speed`] : []),
    ...(night.running > 0 ? [`${night.running} tasks still run`] : []),
    ...(inFlight.nothing ? [`${inFlight.nothing} calls in flight have no outcome`] : []),
    ...(night.unexplained > 0 ? [`${night.unexplained} lines of the bill are neither recorded nor in doubt`] : []),
    ...(!now && unknown + night.doubts > 0 ? [`${unknown} calls were broken off, ${night.doubts} are in doubt`] : []),
    ...(now && unknown === 0 ? [`none of ${all} calls in flight was broken off`] : []),
    ...(now && night.doubts !== unknown ? [`${unknown} calls were broken off, and ${night.doubts} are listed`] : []),
    ...(afterwards.completed === tasks
      ? []
      : [`only ${afterwards.completed} tasks were completed after the resumption`]),
    ...(afterwards.duplicates === 0 && afterwards.charges === tasks * CALLS_PER_QUESTION
      ? []
      : [`in the end ${afterwards.charges} charges, ${afterwards.duplicates} of them for the same request again`]),
    ...(afterwards.unmatched === 0 ? [] : [`journal and bill differ in ${afterwards.unmatched} lines`]),
  ];
}

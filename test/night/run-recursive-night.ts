import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Pool } from 'pg';
import { openPool } from '../../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { namedInDoubt } from '../../src/rehearsal/figures.ts';
import { startSimulatedProvider } from '../../src/rehearsal/simulated-provider.ts';
import { type CommandResult, runCommand, startCommand } from '../support/command.ts';
import type { FaquadBatch } from '../support/faquad.ts';
import { type Kill, killThrough, planKills } from '../support/kills.ts';
import { type CheckedAnswer, checkAnswers } from './recursive-answers.ts';

/** Calls of one question when nothing is refused: what the simulated root model makes of it. */
export const CALLS_PER_QUESTION = 25;
const BATCH_KEY = 'faquad:v1';
const BILL = 'bill.jsonl';

/** How a night is run. */
export interface NightOptions {
  /** Of this night alone: its server, its bill, its log. */
  folder: string;
  batch: FaquadBatch;
  workers: number;
  concurrency: number;
  kills: number;
  seed: number;
  /** How long the provider takes, such as `2-20`; then its replies come in another order than they were asked for. Undefined: `run --simulate`. */
  latencyMs?: string | undefined;
}

/** What a night of the agent `recursive` came to. */
export interface RecursiveNight {
  questions: number;
  /** By item. */
  answers: Map<string, CheckedAnswer>;
  completed: number;
  /** Calls with an answer in the journal. */
  calls: number;
  /** Lines on the provider's bill. */
  charges: number;
  /** Calls (`key seq`) that the bill charges more than once, with the charges beyond the first. */
  duplicates: Map<string, number>;
  /** Calls named as in doubt before the bill was imported. */
  named: Set<string>;
  /** What the audit finds wrong beyond double charges that were named. */
  unexplained: string[];
  killsPlanned: number;
  kills: Kill[];
  attemptsLost: number;
  replayed: number;
  seconds: number;
}

/** Where a night happens. */
interface Place {
  folder: string;
  home: string;
  pool: Pool;
  /** A command as a person gives it there. */
  madrugada(...words: string[]): Promise<CommandResult>;
}

/**
 * One night of real questions by the commands that a person gives: load, run, answers, bill import, audit. Kills worker processes and the
 * database on the way, as often as asked. Throws when a command does not work at all; failed tasks and bad proofs are figures of the night.
 */
export async function runRecursiveNight(options: NightOptions): Promise<RecursiveNight> {
  const { folder, batch } = options;
  const home = join(folder, 'home');
  mkdirSync(folder, { recursive: true });
  const { url } = await startEmbedded(home);
  await migrate(url);
  const pool = openPool({ url, applicationName: 'madrugada recursive night', max: 2 });
  const madrugada = (...words: string[]) => runCommand(words, { folder, environment: { MADRUGADA_HOME: home } });
  const place = { folder, home, pool, madrugada };
  try {
    await load(place, options);
    const run = await runAndKill(place, options);
    return { questions: batch.references.size, ...run, ...(await readMorning(place, batch)) };
  } finally {
    await pool.end();
    await stopEmbedded(home);
  }
}

/** A kill costs a task one attempt at most, so that none can fail by kills alone: they come faster here than in any real night. */
async function load({ madrugada }: Place, { batch, kills }: NightOptions): Promise<void> {
  const agent = ['--agent', 'recursive', '--option', `documents=${batch.documentsFolder}`];
  const attempts = ['--max-attempts', String(3 + kills)];
  await mustSucceed(madrugada('batch', 'load', 'faquad', batch.file, '--version', 'v1', ...agent, ...attempts));
}

async function runAndKill(
  { folder, home, pool }: Place,
  options: NightOptions,
): Promise<Pick<RecursiveNight, 'completed' | 'replayed' | 'killsPlanned' | 'kills' | 'seconds'>> {
  const { latencyMs, seed } = options;
  const provider = latencyMs
    ? await startSimulatedProvider(join(folder, BILL), ['--latency-ms', latencyMs])
    : undefined;
  const startedAt = performance.now();
  const counts = ['--workers', String(options.workers), '--concurrency', String(options.concurrency)];
  const simulate = provider ? [] : ['--simulate', '--bill', BILL];
  const night = startCommand(['run', 'faquad', '--json', ...simulate, ...counts], {
    folder,
    environment: { MADRUGADA_HOME: home, ...provider?.environment },
  });
  const hasEnded = () => night.process.exitCode !== null || night.process.signalCode !== null;
  try {
    const plan = planKills(options.kills, options.batch.references.size * CALLS_PER_QUESTION, seed);
    const kills = await killThrough({ home, pool, batchKey: BATCH_KEY, hasEnded }, plan, seed);
    const { completed, replayed } = documentOf(await night.result);
    return { completed, replayed, killsPlanned: plan.length, kills, seconds: (performance.now() - startedAt) / 1000 };
  } finally {
    night.process.kill('SIGTERM'); // without effect unless something has gone wrong
    await night.result;
    await provider?.stop();
  }
}

async function readMorning(
  { folder, pool, madrugada }: Place,
  batch: FaquadBatch,
): Promise<Omit<RecursiveNight, 'questions' | 'completed' | 'replayed' | 'killsPlanned' | 'kills' | 'seconds'>> {
  const named = await namedInDoubt({ pool, batchKey: BATCH_KEY }); // before the bill is there
  const exported = await mustSucceed(madrugada('answers', 'faquad'));
  await mustSucceed(madrugada('bill', 'import', 'faquad', BILL));
  const audit = documentOf(await madrugada('audit', 'faquad', '--json'));
  const { rows } = await pool.query<{ count: number }>(
    `SELECT count(*) AS count FROM madrugada.attempt WHERE ending = 'lost'`,
  );
  return {
    answers: checkAnswers(exported.stdout, batch),
    charges: readFileSync(join(folder, BILL), 'utf8').trimEnd().split('\n').length,
    named,
    ...readAudit(audit, named),
    attemptsLost: rows[0]?.count ?? 0,
  };
}

async function mustSucceed(command: Promise<CommandResult>): Promise<CommandResult> {
  const result = await command;
  if (result.code !== 0) throw new Error(`a command ended with ${result.code ?? result.signal}:\n${result.stderr}`);
  return result;
}

/** What a command says with `--json`; exit code 1, with something to look at, has a document too. */
function documentOf({ code, signal, stdout, stderr }: CommandResult) {
  if (stdout === '') throw new Error(`a command ended with ${code ?? signal} and said nothing:\n${stderr}`);
  return JSON.parse(stdout);
}

type AuditRow = Record<string, string | null>;

/** Reads the five proofs of `audit --json`. A double charge and a charge in doubt are in order where their call was named. */
function readAudit(
  audit: { proofs: { proof: string; rows: AuditRow[] }[]; problems: string[] },
  named: ReadonlySet<string>,
): Pick<RecursiveNight, 'calls' | 'duplicates' | 'unexplained'> {
  const rowsOf = (name: string) => {
    const found = audit.proofs.find(({ proof }) => proof.includes(name));
    if (found === undefined) throw new Error(`the audit has no proof ${name}`);
    return found.rows;
  };
  const nameOf = ({ key, seq }: AuditRow) => `${key} ${seq}`;
  const twice = rowsOf('duplicate-charges');
  const unmatched = rowsOf('unmatched');
  const explained = unmatched.filter((row) => row.difference?.endsWith('in doubt') && named.has(nameOf(row)));
  const isAboutDoubts = (problem: string) =>
    (twice.length > 0 && / 0 of them without having been named/.test(problem)) ||
    (unmatched.length > 0 && problem === `journal and bill differ in ${explained.length} lines`) ||
    (twice.length > 0 && /^the journal has \d+ charges beyond/.test(problem));
  return {
    calls: Number(rowsOf('batch-totals')[0]?.calls),
    duplicates: new Map(twice.map((row) => [nameOf(row), Number(row.charges) - 1])),
    unexplained: audit.problems.filter((problem) => !isAboutDoubts(problem)),
  };
}

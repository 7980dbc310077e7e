import { mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openPool } from '../../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { namedInDoubt } from '../../src/rehearsal/figures.ts';
import { type CommandResult, runCommand, startCommand } from '../support/command.ts';
import type { FaquadBatch } from '../support/faquad.ts';
import { type Kill, killThrough, planKills } from '../support/kills.ts';
import { type CheckedAnswer, checkAnswers } from './recursive-answers.ts';

/** Calls of one question when nothing is refused: what the simulated root model makes of it. */
export const CALLS_PER_QUESTION = 25;
const BATCH_KEY = 'faquad:v1';

/** How a night is run. */
export interface NightOptions {
  /** Of this night alone: its server, its bill, its log. */
  folder: string;
  batch: FaquadBatch;
  workers: number;
  concurrency: number;
  kills: number;
  seed: number;
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

/**
 * One night of real questions by the commands that a person gives: load, run, answers, bill import, audit. Kills worker processes and the
 * database on the way, as often as asked. Throws when a command fails that must not.
 */
export async function runRecursiveNight(options: NightOptions): Promise<RecursiveNight> {
  const { folder, batch, seed } = options;
  const home = join(folder, 'home');
  mkdirSync(folder, { recursive: true });
  const { url } = await startEmbedded(home);
  await migrate(url);
  const pool = openPool({ url, applicationName: 'madrugada recursive night', max: 2 });
  pool.on('error', () => undefined); // the database is killed on purpose
  const environment = { MADRUGADA_HOME: home };
  const madrugada = (...words: string[]) => runCommand(words, { folder, environment });
  try {
    await mustSucceed(
      madrugada(
        ...['batch', 'load', 'faquad', batch.file, '--version', 'v1', '--agent', 'recursive'],
        ...['--option', `documents=${batch.documentsFolder}`],
      ),
    );
    const startedAt = performance.now();
    const counts = ['--workers', String(options.workers), '--concurrency', String(options.concurrency)];
    const night = startCommand(['run', 'faquad', '--simulate', '--bill', 'bill.jsonl', '--json', ...counts], {
      folder,
      environment,
    });
    const hasEnded = () => night.process.exitCode !== null || night.process.signalCode !== null;
    const plan = planKills(options.kills, batch.references.size * CALLS_PER_QUESTION, seed);
    const kills = await killThrough({ home, pool, batchKey: BATCH_KEY, hasEnded }, plan, seed);
    const run = JSON.parse((await mustSucceed(night.result)).stdout);
    const seconds = (performance.now() - startedAt) / 1000;
    const named = await namedInDoubt({ pool, batchKey: BATCH_KEY }); // before the bill is there
    const exported = await mustSucceed(madrugada('answers', 'faquad'));
    await mustSucceed(madrugada('bill', 'import', 'faquad', 'bill.jsonl'));
    const audit = readAudit(await madrugada('audit', 'faquad', '--json'), named);
    const { rows: lost } = await pool.query<{ count: number }>(
      `SELECT count(*) AS count FROM madrugada.attempt WHERE ending = 'lost'`,
    );
    return {
      questions: batch.references.size,
      answers: checkAnswers(exported.stdout, batch),
      completed: run.completed,
      charges: (await readFile(join(folder, 'bill.jsonl'), 'utf8')).trimEnd().split('\n').length,
      named,
      ...audit,
      killsPlanned: plan.length,
      kills,
      attemptsLost: lost[0]?.count ?? 0,
      replayed: run.replayed,
      seconds,
    };
  } finally {
    await pool.end();
    await stopEmbedded(home);
  }
}

async function mustSucceed(command: Promise<CommandResult>): Promise<CommandResult> {
  const result = await command;
  if (result.code !== 0) throw new Error(`a command ended with ${result.code ?? result.signal}:\n${result.stderr}`);
  return result;
}

type AuditRow = Record<string, string | null>;

/** Reads the five proofs of `audit --json`. A double charge and a charge in doubt are in order where their call was named. */
function readAudit(
  { stdout, stderr }: CommandResult,
  named: ReadonlySet<string>,
): Pick<RecursiveNight, 'calls' | 'duplicates' | 'unexplained'> {
  if (stdout === '') throw new Error(`the audit gave nothing: ${stderr}`);
  const audit: { proofs: { proof: string; rows: AuditRow[] }[]; problems: string[] } = JSON.parse(stdout);
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

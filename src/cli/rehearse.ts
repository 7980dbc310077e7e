import { type Command, Option } from 'commander';
import type { Proof } from '../bill/proofs.ts';
import { dollars } from '../rehearsal/check-figures.ts';
import { type RehearsedRun, RUNS, rehearseNight } from '../rehearsal/rehearse-night.ts';
import { positiveInteger } from './flags.ts';
import { type CommonFlags, formatTable, printProgress, printResult } from './output.ts';
import { registerModule } from './rehearse-module.ts';

interface NightFlags extends CommonFlags {
  tasks?: number;
  workers: number;
  only?: string;
  crashAt: number;
  full?: boolean;
}

const LOOK = 1;
const FULL_TASKS = 400;
/** Rows of one proof that are printed; the whole is in the database. */
const SHOWN_ROWS = 5;

const HELP = `
Runs the same night without a crash and with five kinds of misfortune, each in a fresh database of a server of its own, with real processes
and real signals, against a simulated provider that keeps its own bill. Then it reads each bill. It needs no key and costs nothing.

Example:
  madrugada rehearse night
  madrugada rehearse night --only window --tasks 40

Exit code 1: a figure is not as it must be.`;

/** `madrugada rehearse`: proofs that this installation keeps its promises. */
export function register(program: Command): void {
  const rehearse = program.command('rehearse').description('show that this installation keeps its promises');
  rehearse
    .command('night')
    .description('the night with and without crashes, and the bill of each')
    .option('--tasks <n>', 'questions of each run', positiveInteger)
    .option('--workers <n>', 'worker processes', positiveInteger, 4)
    .addOption(new Option('--only <run>', 'one run').choices(RUNS.map(({ name }) => name)))
    .option('--crash-at <n>', 'the question at which things go wrong', positiveInteger, 215)
    .option('--full', `${FULL_TASKS} questions in every run`)
    .addHelpText('after', HELP)
    .action(night);
  registerModule(rehearse);
}

async function night(flags: NightFlags): Promise<void> {
  const startedAt = performance.now();
  process.on('SIGINT', () => undefined); // the night under way is interrupted by it too, and its end ends the rehearsal
  const runs = await rehearseNight({
    only: flags.only,
    tasks: flags.full ? FULL_TASKS : flags.tasks,
    workers: flags.workers,
    crashAt: flags.crashAt,
    say: printProgress,
  });
  const ok = runs.every(({ problems }) => problems.length === 0);
  const document = { runs: runs.map((run) => jsonOf(run, flags.crashAt)), ok };
  printResult(flags, document, describe(runs, flags.crashAt, ok, (performance.now() - startedAt) / 1000));
  if (!ok) process.exitCode = LOOK;
}

function jsonOf({ figures, problems }: RehearsedRun, crashAt: number) {
  const { name, tasks, completed, calls, usd, duplicates, named, question, replayed, seconds } = figures;
  return {
    name,
    tasks,
    completed,
    calls,
    usd: dollars(usd),
    duplicates,
    in_doubt: named.size,
    [`task_${crashAt}`]: question,
    replayed,
    seconds: Number(seconds.toFixed(1)),
    problems,
  };
}

function describe(runs: RehearsedRun[], crashAt: number, ok: boolean, seconds: number): string {
  const crashed = runs.find(({ figures }) => figures.name === 'crash-215');
  return [
    '',
    tableOfRuns(runs, crashAt),
    '',
    'calls and dollars are those on the provider’s bill, which the engine never writes; in doubt: named before the bill was read.',
    ...(crashed
      ? [
          '',
          'The proof queries (db/audit) on the night of crash-215:',
          ...crashed.proofs.map((proof) => describeProof(proof, crashAt)),
        ]
      : []),
    '',
    ...runs.flatMap(({ figures, problems }) => problems.map((problem) => `${figures.name}: ${problem}`)),
    ok
      ? `All figures are as they must be (${seconds.toFixed(0)} s).`
      : 'Not every figure is as it must be: the lines above say which. Bills and logs are kept in $MADRUGADA_HOME/rehearsal.',
  ].join('\n');
}

function tableOfRuns(runs: RehearsedRun[], crashAt: number): string {
  const headings = ['run', 'tasks', 'completed', 'calls', 'US$', 'duplicates', 'in doubt'];
  const question = [`attempts of ${crashAt}`, `charges of ${crashAt}`];
  const rows = runs.map(({ figures: f }) => [
    ...[f.name, f.tasks, f.completed, f.calls, dollars(f.usd), f.duplicates, f.named.size],
    ...[f.question.attempts, f.question.charges, f.replayed, f.seconds.toFixed(1), (f.calls / f.seconds).toFixed(0)],
  ]);
  return formatTable([...headings, ...question, 'replayed', 'seconds', 'calls/s'], rows);
}

/** A long result is cut; of the tasks, the one that crashed is what a reader looks for. */
function describeProof({ file, columns, rows }: Proof, crashAt: number): string {
  const item = columns.indexOf('item');
  const chosen = item < 0 ? rows.slice(0, SHOWN_ROWS) : rows.filter((row) => row[item] === String(crashAt));
  const cut = chosen.length < rows.length ? `; ${chosen.length} shown` : '';
  const table =
    rows.length === 0
      ? ''
      : `\n${formatTable(
          columns,
          chosen.map((row) => row.map((value) => value ?? '')),
        )}`;
  return `\n${file} (${rows.length} ${rows.length === 1 ? 'row' : 'rows'}${cut})${table}`;
}

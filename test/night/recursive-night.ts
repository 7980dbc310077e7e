import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { FAQUAD_IS_MISSING, FAQUAD_IS_THERE, writeFaquad } from '../support/faquad.ts';
import { differencesOf, problemsOf } from './recursive-verdict.ts';
import { type RecursiveNight, runRecursiveNight } from './run-recursive-night.ts';

/**
 * `npm run test:recursive`: a night by `run --simulate` without a kill, and one with kills, in which replies come out of order. Prints what
 * they came to; exits 1 if something is not as it must be.
 */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      questions: { type: 'string', default: '400' },
      kills: { type: 'string', default: '20' },
      'latency-ms': { type: 'string', default: '2-20' },
      seed: { type: 'string', default: String(Date.now() % 1e6) },
    },
  });
  if (!FAQUAD_IS_THERE) {
    process.stdout.write(`nothing is run: ${FAQUAD_IS_MISSING}\n`);
    return;
  }
  process.stdout.write(`${values.questions} questions, ${values.kills} kills, seed ${values.seed}\n`);
  const folder = await mkdtemp(join(tmpdir(), 'madrugada-recursive-'));
  await chmod(folder, 0o755); // a server that root starts must reach it
  let wrong = ['the nights did not come to their end'];
  try {
    const batch = await writeFaquad(folder, Number(values.questions));
    const common = { batch, workers: 3, concurrency: 4, seed: Number(values.seed) };
    const plain = await runRecursiveNight({ ...common, folder: join(folder, 'plain'), kills: 0 });
    const killed = await runRecursiveNight({
      ...common,
      folder: join(folder, 'killed'),
      kills: Number(values.kills),
      latencyMs: values['latency-ms'],
    });
    printTable({ plain, killed });
    wrong = [...problemsOf(plain), ...problemsOf(killed), ...differencesOf(plain, killed)];
  } finally {
    for (const line of wrong) process.stdout.write(`WRONG: ${line}\n`);
    if (wrong.length === 0) await rm(folder, { recursive: true });
    else process.stdout.write(`bills and databases are kept in ${folder}\n`);
  }
  if (wrong.length > 0) process.exitCode = 1;
}

/** One line for each figure, one column for each night. */
function printTable(nights: Record<string, RecursiveNight>): void {
  const columns = Object.entries(nights).map(([name, night]) => ({ night: name, ...figuresOf(night) }));
  const names = Object.keys(columns[0] ?? {}) as (keyof (typeof columns)[number])[];
  for (const name of names)
    process.stdout.write(`${name.padEnd(28)}${columns.map((column) => String(column[name]).padStart(20)).join('')}\n`);
}

function figuresOf(night: RecursiveNight) {
  const answers = [...night.answers.values()];
  const citations = answers.reduce((sum, answer) => sum + answer.citations, 0);
  const bad = answers.reduce((sum, { badCitations }) => sum + badCitations.length, 0);
  const alike = answers.filter(({ hasReference }) => hasReference).length;
  const count = (target: 'worker' | 'database') => night.kills.filter((kill) => kill.target === target).length;
  return {
    'completed questions': `${night.completed} of ${night.questions}`,
    'citations that check': `${citations - bad} of ${citations}`,
    'contain a reference answer': `${((100 * alike) / night.questions).toFixed(1)} %`,
    calls: night.calls,
    charges: night.charges,
    'calls charged twice': night.duplicates.size,
    'of them named in doubt': [...night.duplicates.keys()].filter((call) => night.named.has(call)).length,
    'named in doubt': night.named.size,
    'workers killed': count('worker'),
    'databases killed': count('database'),
    'attempts lost': night.attemptsLost,
    'replayed calls': night.replayed,
    seconds: night.seconds.toFixed(0),
  };
}

await main();

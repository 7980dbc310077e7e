import { type Proof, readProofs } from '../bill/proofs.ts';
import { stopEmbedded } from '../postgres/embedded.ts';
import { checkFigures } from './check-figures.ts';
import { type Figures, namedInDoubt, readFigures } from './figures.ts';
import type { RehearsalRun } from './rehearsal-run.ts';
import { crash215 } from './run-crash-215.ts';
import { crashAnywhere } from './run-crash-anywhere.ts';
import { noCrash } from './run-no-crash.ts';
import { slowWorker } from './run-slow-worker.ts';
import { windowRun } from './run-window.ts';
import { windowRecovered } from './run-window-recovered.ts';
import { rehearsalHome, Stage } from './stage.ts';

/** The runs, in the order in which they are rehearsed. */
export const RUNS: readonly RehearsalRun[] = [noCrash, crash215, windowRun, crashAnywhere, windowRecovered, slowWorker];

export interface RehearsalOptions {
  /** Names of runs; undefined: all. */
  only: string | undefined;
  /** Tasks of every run; undefined: as many as each run has by default. */
  tasks: number | undefined;
  workers: number;
  crashAt: number;
  /** Told what happens, line by line. */
  say: (line: string) => void;
}

export interface RehearsedRun {
  figures: Figures;
  /** What is not as it must be. */
  problems: string[];
  /** The results of the proof queries. */
  proofs: Proof[];
}

const LEASE_SECONDS = 600;

/** Runs the night again and again, each time with another misfortune, and reads the bill of each. */
export async function rehearseNight(options: RehearsalOptions): Promise<RehearsedRun[]> {
  const rehearsed: RehearsedRun[] = [];
  try {
    for (const run of RUNS) {
      if (options.only === undefined || options.only === run.name) rehearsed.push(await rehearse(run, options));
    }
  } finally {
    await stopEmbedded(rehearsalHome());
  }
  return rehearsed;
}

async function rehearse(run: RehearsalRun, { tasks = run.tasks, workers, crashAt, say }: RehearsalOptions) {
  say(`${run.name}: ${tasks} tasks, ${workers} workers`);
  const stage = await Stage.open({
    name: run.name,
    tasks,
    workers,
    crashAt,
    leaseSeconds: run.leaseSeconds ?? LEASE_SECONDS,
    providerFlags: run.providerFlags ?? [],
    lookUp: run.lookUp ?? false,
    environment: run.environment ?? {},
    say,
  });
  try {
    const startedAt = performance.now();
    await run.perform(stage);
    const seconds = (performance.now() - startedAt) / 1000;
    const figures = await readFigures(stage, await namedInDoubt(stage), seconds);
    return { figures, problems: checkFigures(figures, run.expect(figures)), proofs: await proofsOf(stage) };
  } finally {
    await stage.close();
  }
}

async function proofsOf({ pool, batchKey }: Stage): Promise<Proof[]> {
  const client = await pool.connect();
  try {
    return await readProofs(client, batchKey);
  } finally {
    client.release();
  }
}

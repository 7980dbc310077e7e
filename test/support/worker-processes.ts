import type { ChildProcess } from 'node:child_process';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { type CommandOptions, type CommandResult, type RunningCommand, startCommand } from './command.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { type ScriptedProvider, startScriptedProvider } from './scripted-provider.ts';
import { until } from './until.ts';

/** What a worker or a night under test may differ in. */
export interface ProcessSettings {
  concurrency?: number;
  /** For `run`: worker processes, and the first part of their slots' names. */
  workers?: number;
  slot?: string;
  environment?: Record<string, string>;
}

/** Processes of `madrugada` on one database and one provider: real ones, to be struck by real signals. */
export class WorkerProcesses {
  readonly #database: { url: string };
  readonly #providerUrl: string;
  readonly #running = new Set<RunningCommand>();

  constructor(database: { url: string }, providerUrl: string) {
    this.#database = database;
    this.#providerUrl = providerUrl;
  }

  /** `madrugada worker`. */
  worker(slot: string, batch: string | undefined, settings: ProcessSettings = {}): RunningCommand {
    const only = batch === undefined ? [] : ['--batch', batch];
    return this.start(
      ['worker', '--slot', slot, '--concurrency', String(settings.concurrency ?? 1), ...only],
      settings,
    );
  }

  /** `madrugada run --json`: the supervisor of a night, and its workers. Without `slot` its slots are `BATCH/1`, `BATCH/2`, … */
  night(batch: string, settings: ProcessSettings = {}): RunningCommand {
    const { workers = 1, concurrency = 1, slot = batch } = settings;
    const counts = ['--workers', String(workers), '--concurrency', String(concurrency)];
    return this.start(['run', batch, '--json', '--slot', slot, ...counts], settings);
  }

  start(args: string[], { environment = {} }: ProcessSettings = {}): RunningCommand {
    const options: CommandOptions = {
      group: true,
      environment: { DATABASE_URL: this.#database.url, ANTHROPIC_BASE_URL: this.#providerUrl, ...environment },
    };
    const command = startCommand(args, options);
    this.#running.add(command);
    void command.result.then(() => this.#running.delete(command));
    command.process.stderr?.on('data', (chunk) => words.set(command, (words.get(command) ?? '') + chunk));
    return command;
  }

  /** SIGTERM, and the end. */
  async stop({ process, result }: RunningCommand): Promise<CommandResult> {
    process.kill('SIGTERM');
    return result;
  }

  /** Kills what a test has left running, the workers of its nights included. */
  async killAll(): Promise<void> {
    const left = [...this.#running];
    for (const { process } of left) killGroup(process);
    await Promise.all(left.map(({ result }) => result));
  }
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // all of it has ended meanwhile
  }
}

/** What the tests of one file share: a database, a provider in this process, and worker processes on both. */
export interface WorkerBench {
  db: TestDatabase;
  provider: ScriptedProvider;
  processes: WorkerProcesses;
}

/** Sets up a bench for the calling test file; after each test nothing of it runs any more. Its fields are there once tests run. */
export function workerBench(): WorkerBench {
  const bench = {} as WorkerBench;
  beforeAll(async () => {
    bench.db = await createTestDatabase();
    bench.provider = await startScriptedProvider();
    bench.processes = new WorkerProcesses(bench.db, bench.provider.url);
  });
  afterEach(async () => {
    await bench.processes?.killAll();
    bench.provider?.forget();
    await bench.db?.pool.query('DELETE FROM madrugada.provider_pace'); // else the next test waits out the pause of this one
  });
  afterAll(async () => {
    await bench.provider?.close();
    await bench.db?.drop();
  });
  return bench;
}

const words = new WeakMap<RunningCommand, string>();

/** Waits until a process, or one of its workers, has said something on its stderr. */
export async function said(command: RunningCommand, text: string): Promise<void> {
  await until(`"${text}" is said`, () => words.get(command)?.includes(text));
}

/** The worker that holds the batch's only running task. */
export async function holderOf({ pool }: TestDatabase, batchKey: string): Promise<{ id: number; pid: number }> {
  const { rows } = await pool.query<{ id: number; pid: number }>(
    'SELECT w.id, w.pid FROM madrugada.task t JOIN madrugada.worker w ON w.id = t.worker_id WHERE t.batch_key = $1',
    [batchKey],
  );
  const [row] = rows;
  if (row === undefined) throw new Error(`nobody holds a task of batch ${batchKey}`);
  return row;
}

/** Waits until every task of the batch is completed or failed. */
export async function untilDone({ pool }: TestDatabase, batchKey: string): Promise<void> {
  await until(`batch ${batchKey} is done`, async () => {
    const { rows } = await pool.query(
      `SELECT FROM madrugada.task WHERE batch_key = $1 AND state IN ('pending', 'running') LIMIT 1`,
      [batchKey],
    );
    return rows.length === 0;
  });
}

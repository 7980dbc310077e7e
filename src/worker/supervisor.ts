import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import Big from 'big.js';
import type { Pool } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { proofOfDeath } from '../lease/process-identity.ts';
import { endWorker, livingWorkers } from '../lease/worker-row.ts';
import { isConnectionLoss } from '../postgres/connection-loss.ts';
import { patiently } from '../postgres/patiently.ts';
import { type BatchProgress, batchProgress, isAtItsEnd } from './batch-progress.ts';
import type { WorkerMessage } from './worker-messages.ts';

/** What the night tells of itself while it runs. */
export interface NightAccount extends BatchProgress {
  calls: number;
  usd: Big;
  replayed: number;
  lastFailure: string | undefined;
  restarts: number;
}

export interface NightOptions {
  pool: Pool;
  batchKey: string;
  /** The command line of one worker process, after Node's own. */
  workerCommand: (index: number) => { script: string; arguments: string[] };
  workers: number;
  environment: NodeJS.ProcessEnv;
  onProgress(account: NightAccount): void;
  onWorkerEnd(description: string): void;
  /** Called when the database does not answer: starts it again where that is ours to do. */
  revive(): Promise<void>;
  /** Aborted: the night is interrupted, work is given back. */
  signal: AbortSignal;
}

interface Running {
  child: ChildProcess;
  workerId: number | undefined;
  account: Extract<WorkerMessage, { type: 'account' }> | undefined;
  startedAt: number;
}

const PROGRESS_MS = 500;
/**
 * There are as many workers as cores, or more: collecting garbage in parallel would take the cores from each other. Opening and closing 400
 * sandboxes cost 5.1 s of processor time with this, 6.8 s without.
 */
const SINGLE_THREADED_GC = '--single-threaded-gc';
/** A worker that ended within this time is restarted only after as long again. */
const CALM_MS = 2_000;
/** How a command ends whose usage or input is wrong, by its exit code. */
const WRONG_INPUT = 'exit 2';

/**
 * The supervisor of one night: starts the worker processes, reaps and restarts one that dies, releases what it held (its death is proven by
 * reaping it), and ends when nothing is left that time alone can advance.
 */
export class Supervisor {
  readonly #options: NightOptions;
  readonly #running = new Map<number, Running>();
  readonly #burials = new Set<Promise<void>>();
  #past = { calls: 0, usd: new Big(0), replayed: 0 };
  #lastFailure: string | undefined;
  #restarts = 0;
  #ending = false;
  #cannotStart: MadrugadaError | undefined;

  constructor(options: NightOptions) {
    this.#options = options;
  }

  /** Runs the night; returns its last account. */
  async run(): Promise<NightAccount> {
    try {
      return await this.#supervise();
    } catch (error) {
      this.#abandonWorkers();
      throw error;
    }
  }

  async #supervise(): Promise<NightAccount> {
    const { pool, signal, workers } = this.#options;
    await buryTheDead(pool);
    if (!isAtItsEnd(await this.#progress())) for (let index = 1; index <= workers; index += 1) this.#start(index);
    let account = await this.#account();
    while (!signal.aborted && !isAtItsEnd(account) && !this.#cannotStart) {
      this.#options.onProgress(account);
      await delay(PROGRESS_MS, undefined, { signal }).catch(() => undefined); // aborted: the loop's condition says so
      account = await this.#account();
    }
    await this.#stopWorkers();
    if (this.#cannotStart) throw this.#cannotStart;
    const last = await this.#account();
    this.#options.onProgress(last);
    return last;
  }

  /** Asks the workers to end; asked again, they end at once, and their calls in flight stay in doubt until their death is proven. */
  hurry(): void {
    for (const { child } of this.#running.values()) child.kill('SIGTERM');
  }

  #start(index: number): void {
    const { workerCommand, environment } = this.#options;
    const { script, arguments: words } = workerCommand(index);
    const child = fork(script, words, {
      env: environment,
      execArgv: [...process.execArgv, SINGLE_THREADED_GC],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const running: Running = { child, workerId: undefined, account: undefined, startedAt: Date.now() };
    this.#running.set(index, running);
    child.on('message', (message: WorkerMessage) => {
      if (message.type === 'registered') running.workerId = message.workerId;
      else running.account = message;
    });
    child.once(
      'exit',
      (code, killedBy) => void this.#reap(index, running, killedBy ? `killed by ${killedBy}` : `exit ${code}`),
    );
  }

  /** A child that has been waited for is dead beyond doubt: what it held is released within moments. */
  async #reap(index: number, running: Running, how: string): Promise<void> {
    this.#running.delete(index);
    this.#keepAccount(running);
    if (running.workerId !== undefined) {
      const burial = bury(this.#options.pool, running.workerId, how);
      this.#burials.add(burial);
      await burial;
      this.#burials.delete(burial);
    }
    if (this.#ending) return;
    if (how === WRONG_INPUT && running.workerId === undefined) {
      // such as a program that is newer than the database: it would fail in the same way all night
      this.#cannotStart ??= new MadrugadaError(`worker ${index} cannot start; it says why above`);
      return;
    }
    this.#options.onWorkerEnd(`worker ${index} ended: ${how}; it is started again`);
    const lived = Date.now() - running.startedAt;
    if (lived < CALM_MS) await delay(CALM_MS - lived);
    if (this.#ending) return;
    this.#restarts += 1;
    this.#start(index);
  }

  #keepAccount({ account }: Running): void {
    if (account === undefined) return;
    this.#past = {
      calls: this.#past.calls + account.calls,
      usd: this.#past.usd.plus(account.usd),
      replayed: this.#past.replayed + account.replayed,
    };
    this.#lastFailure = account.lastFailure ?? this.#lastFailure;
  }

  async #stopWorkers(): Promise<void> {
    this.#ending = true;
    const ends = [...this.#running.values()].map(({ child }) => once(child, 'exit'));
    this.hurry();
    await Promise.all(ends);
    await Promise.all(this.#burials); // their connection is closed after the night
  }

  /** The night breaks off. Its workers go on as after the death of their supervisor, and do not keep this process, which has to say why. */
  #abandonWorkers(): void {
    this.#ending = true;
    for (const { child } of this.#running.values()) {
      if (child.connected) child.disconnect();
      child.unref();
    }
  }

  async #progress(): Promise<BatchProgress> {
    const { pool, batchKey, revive } = this.#options;
    try {
      return await batchProgress(pool, batchKey);
    } catch (error) {
      if (!isConnectionLoss(error)) throw error;
      await revive();
      return patiently(() => batchProgress(pool, batchKey));
    }
  }

  async #account(): Promise<NightAccount> {
    const now = [...this.#running.values()].flatMap(({ account }) => (account ? [account] : []));
    return {
      ...(await this.#progress()),
      calls: now.reduce((sum, { calls }) => sum + calls, this.#past.calls),
      usd: now.reduce((sum, { usd }) => sum.plus(usd), this.#past.usd),
      replayed: now.reduce((sum, { replayed }) => sum + replayed, this.#past.replayed),
      lastFailure: now.findLast(({ lastFailure }) => lastFailure !== undefined)?.lastFailure ?? this.#lastFailure,
      restarts: this.#restarts,
    };
  }
}

/** What an earlier night on this host left running in the database. */
async function buryTheDead(pool: Pool): Promise<void> {
  for (const worker of await patiently(() => livingWorkers(pool))) {
    const proof = proofOfDeath(worker);
    if (proof) await bury(pool, worker.id, proof);
  }
}

/** Notes a proven death, once the last statement of the dead has come to its end. */
async function bury(pool: Pool, workerId: number, how: string): Promise<void> {
  while (!(await patiently(() => endWorker(pool, workerId, how)))) await delay(50);
}

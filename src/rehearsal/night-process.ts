import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { MadrugadaError } from '../errors.ts';

const INTERRUPTED = 130;

/** How a night is started. */
export interface NightStart {
  batchKey: string;
  workers: number;
  environment: NodeJS.ProcessEnv;
  /** Where its progress and its workers' words go. */
  log: string;
}

/** `madrugada run` as an operator starts it: a supervisor process with worker processes of its own. */
export class NightProcess {
  readonly #child: ChildProcess;
  readonly #log: string;
  readonly #result: Promise<{ replayed: number } | undefined>;
  readonly #exit: Promise<unknown[]>;

  constructor({ batchKey, workers, environment, log }: NightStart) {
    const script = fileURLToPath(
      import.meta.resolve(import.meta.url.endsWith('.ts') ? '../cli/main.ts' : '../cli/main.js'),
    );
    const words = ['run', batchKey, '--json', '--workers', String(workers), '--slot', 'rehearsal'];
    this.#log = log;
    this.#child = fork(script, words, {
      env: environment,
      stdio: ['ignore', 'pipe', openSync(log, 'a'), 'ipc'],
    });
    const { stdout } = this.#child;
    if (stdout === null) throw new Error('the night has no output');
    this.#exit = once(this.#child, 'exit');
    this.#result = json(stdout).then(
      (document) => document as { replayed: number },
      () => undefined, // killed before it had anything to say
    );
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Sends a signal to the supervisor process. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Waits for the night's own end; the calls it replayed. Throws when it ended in another way than by finishing its batch. */
  async finished(): Promise<{ replayed: number }> {
    const [exitCode] = await this.#exit;
    const result = await this.#result;
    if (exitCode === INTERRUPTED) throw new MadrugadaError('interrupted', INTERRUPTED);
    if (exitCode !== 0 || result === undefined)
      throw new MadrugadaError(`the night ended with exit code ${String(exitCode)}; see ${this.#log}`, 1);
    return result;
  }

  /** Waits until the killed process is gone. */
  async gone(): Promise<void> {
    await this.#exit;
  }
}

import { availableParallelism } from 'node:os';
import { MadrugadaError } from '../../errors.ts';
import type { CallKind, PackedContext, SandboxSettings } from './protocol.ts';
import { Sandbox } from './sandbox.ts';
import { SandboxThread } from './sandbox-thread-handle.ts';

/** How often the pool looks for a guest that does not come back, in milliseconds. */
const LOOK_MS = 250;
/** Several times what the counted steps take on a busy machine. */
const HARD_LIMIT_SECONDS = 30;

/**
 * The sandboxes of a process, on a few threads: many sandboxes share one, each with an instance of its own. Code that no count of steps
 * reaches is ended with its thread; the other sandboxes of that thread are lost, and rebuilt by replaying their tasks.
 */
export class SandboxPool {
  readonly #size: number;
  readonly #maxLooks: number;
  #threads: SandboxThread[] = [];
  #looking: NodeJS.Timeout | undefined;
  #lastSandbox = 0;

  /** `hardLimitMs`: how long a guest may run at a stretch. Counted in looks, so that a frozen process does not end what stood still with it. */
  constructor({ threads, hardLimitMs }: { threads: number; hardLimitMs: number }) {
    this.#size = threads;
    this.#maxLooks = Math.ceil(hardLimitMs / LOOK_MS);
  }

  /** Opens a sandbox. `onCall` answers the calls out of it; what it throws is told to the code that called. */
  open(
    settings: SandboxSettings,
    context: PackedContext,
    onCall: (kind: CallKind, payload: string) => Promise<string>,
  ): Sandbox {
    this.#lastSandbox += 1;
    const thread = this.#leastBusy();
    const sandbox = new Sandbox(this.#lastSandbox, thread, onCall);
    thread.add(sandbox, { type: 'open', sandbox: sandbox.id, settings, context });
    this.#looking ??= setInterval(() => this.#look(), LOOK_MS).unref();
    return sandbox;
  }

  /** Ends all threads; sandboxes still open are lost. */
  async close(): Promise<void> {
    clearInterval(this.#looking);
    this.#looking = undefined;
    await Promise.all(this.#threads.splice(0).map((thread) => thread.end(undefined, 'the sandboxes were closed')));
  }

  #leastBusy(): SandboxThread {
    const [least] = this.#threads.toSorted((a, b) => a.load - b.load);
    if (least !== undefined && (least.load === 0 || this.#threads.length >= this.#size)) return least;
    const thread = new SandboxThread((dead) => {
      this.#threads = this.#threads.filter((other) => other !== dead);
    });
    this.#threads.push(thread);
    return thread;
  }

  #look(): void {
    for (const thread of this.#threads) {
      const hanging = thread.hangingFor(this.#maxLooks);
      if (hanging !== undefined)
        void thread.end(
          hanging,
          `the code ran for ${(this.#maxLooks * LOOK_MS) / 1000} s where it could not be stopped, and its sandbox was ended`,
        );
    }
  }
}

let shared: SandboxPool | undefined;

/** The pool of this process. `MADRUGADA_SANDBOX_SECONDS` is how long code may run where it cannot be stopped; default 30. */
export function sandboxPool(): SandboxPool {
  shared ??= new SandboxPool({
    threads: Math.min(4, Math.max(2, availableParallelism())),
    hardLimitMs: 1000 * sandboxSeconds(process.env.MADRUGADA_SANDBOX_SECONDS),
  });
  return shared;
}

function sandboxSeconds(given: string | undefined): number {
  const seconds = given ? Number(given) : HARD_LIMIT_SECONDS;
  if (!(seconds > 0))
    throw new MadrugadaError(`MADRUGADA_SANDBOX_SECONDS must be a number greater than 0, not "${given}"`);
  return seconds;
}

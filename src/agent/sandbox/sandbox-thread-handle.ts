import { Worker } from 'node:worker_threads';
import { type FromThread, RUNNING_SANDBOX, SLICE, type ThreadData, type ToThread } from './protocol.ts';
import type { Sandbox } from './sandbox.ts';

/** A guest's 256 KB of stack need several times as much of the thread's, in megabytes. */
const STACK_MB = 16;

/** The pool's side of a sandbox thread. */
export class SandboxThread {
  readonly #worker: Worker;
  readonly #words = new Int32Array(new SharedArrayBuffer(8));
  readonly #sandboxes = new Map<number, Sandbox>();
  readonly #onEnd: (thread: SandboxThread) => void;
  #looks = { slice: 0, count: 0 };
  #isOver = false;

  /** `onEnd` is told when the thread takes no sandbox any more. */
  constructor(onEnd: (thread: SandboxThread) => void) {
    this.#onEnd = onEnd;
    const file = import.meta.url.endsWith('.ts') ? './sandbox-thread.ts' : './sandbox-thread.js';
    this.#worker = new Worker(new URL(file, import.meta.url), {
      workerData: { words: this.#words } satisfies ThreadData,
      resourceLimits: { stackSizeMb: STACK_MB },
      env: {}, // the guest sees no environment; neither does what it could break into
    });
    this.#worker.on('message', (message: FromThread) => this.#sandboxes.get(message.sandbox)?.receive(message));
    this.#worker.on('error', (error) => void this.end(this.#running, `the sandbox thread failed: ${error.message}`));
    this.#worker.on('exit', () => void this.end(undefined, 'the sandbox thread is gone'));
    this.#worker.unref(); // last: to listen to it takes hold of the process again
  }

  /** How many sandboxes it has. */
  get load(): number {
    return this.#sandboxes.size;
  }

  /** The thread holds the process as long as it has a sandbox. */
  add(sandbox: Sandbox, opening: ToThread): void {
    if (this.#sandboxes.size === 0) this.#worker.ref();
    this.#sandboxes.set(sandbox.id, sandbox);
    this.post(opening);
  }

  remove(sandbox: Sandbox): void {
    if (!this.#sandboxes.delete(sandbox.id)) return;
    this.post({ type: 'close', sandbox: sandbox.id });
    if (this.#sandboxes.size === 0) this.#worker.unref();
  }

  post(message: ToThread): void {
    if (!this.#isOver) this.#worker.postMessage(message);
  }

  /** The sandbox that has been found in the same stretch of running at this many looks in a row; to be asked once a look. */
  hangingFor(maxLooks: number): number | undefined {
    const sandbox = this.#running;
    const slice = Atomics.load(this.#words, SLICE);
    this.#looks =
      sandbox !== undefined && this.#looks.slice === slice
        ? { slice, count: this.#looks.count + 1 }
        : { slice, count: 0 };
    return this.#looks.count >= maxLooks ? sandbox : undefined;
  }

  /** Ends the thread: `culprit` is broken for the reason given, its neighbours are lost through no fault of theirs. */
  async end(culprit: number | undefined, reason: string): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onEnd(this);
    for (const sandbox of this.#sandboxes.values()) {
      if (sandbox.id === culprit) sandbox.receive({ type: 'broken', sandbox: sandbox.id, message: reason });
      else sandbox.lose();
    }
    this.#sandboxes.clear();
    await this.#worker.terminate();
  }

  get #running(): number | undefined {
    return Atomics.load(this.#words, RUNNING_SANDBOX) || undefined;
  }
}

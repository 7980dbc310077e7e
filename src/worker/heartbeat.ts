import { Worker } from 'node:worker_threads';
import type { HeartbeatData, HeldLease, HeldTask, LostLeases } from './heartbeat-protocol.ts';

/** How often the event loop shows the heartbeat thread that it turns, in milliseconds. */
const TURN_MS = 250;

/** The main thread's side of the heartbeat: tells the thread what is held and that it advances. */
export class Heartbeat {
  readonly #progress: Int32Array;
  readonly #thread: Worker;
  readonly #turning: NodeJS.Timeout;

  /** `onLost` is told of leases that are gone. */
  constructor(data: Omit<HeartbeatData, 'progress'>, slotCount: number, onLost: (lost: HeldTask[]) => void) {
    const shared = new SharedArrayBuffer(4 * (slotCount + 1));
    this.#progress = new Int32Array(shared);
    const file = import.meta.url.endsWith('.ts') ? './heartbeat-thread.ts' : './heartbeat-thread.js';
    this.#thread = new Worker(new URL(file, import.meta.url), {
      workerData: { ...data, progress: shared } satisfies HeartbeatData,
    });
    this.#thread.on('message', ({ lost }: LostLeases) => onLost(lost));
    this.#turning = setInterval(() => Atomics.add(this.#progress, 0, 1), TURN_MS);
  }

  hold(slotIndex: number, lease: HeldTask | undefined): void {
    this.#thread.postMessage({ slotIndex, lease } satisfies HeldLease);
  }

  advance(slotIndex: number): void {
    Atomics.add(this.#progress, slotIndex + 1, 1);
  }

  async stop(): Promise<void> {
    clearInterval(this.#turning);
    await this.#thread.terminate();
  }
}

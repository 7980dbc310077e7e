/** A dispatch that leaves more than this after its intent was begun is not sent at all: its process may have been frozen (rule R5). */
const MAX_SEND_DELAY_MS = 5_000;

/**
 * The clock of one dispatch, started before its intent is queued. Elapsed time is the larger of monotonic and wall time: one stands still
 * while a machine sleeps, the other may be set back.
 */
export class Deadline {
  readonly totalMs: number;
  readonly #startedWall = Date.now();
  readonly #startedMonotonic = performance.now();

  constructor(totalMs: number) {
    this.totalMs = totalMs;
  }

  get elapsedMs(): number {
    return Math.max(Date.now() - this.#startedWall, performance.now() - this.#startedMonotonic);
  }

  get remainingMs(): number {
    return this.totalMs - this.elapsedMs;
  }

  /** False once so much time has passed since the intent that another may already believe it dead. */
  get maySend(): boolean {
    return this.elapsedMs <= Math.min(MAX_SEND_DELAY_MS, this.totalMs);
  }
}

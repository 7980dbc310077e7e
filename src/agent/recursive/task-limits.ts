import Big from 'big.js';
import pLimit from 'p-limit';
import type { RecursiveOptions } from './options.ts';

/** A task may not spend more: its attempt fails, and what was paid for stays in the journal. */
export class LimitReached extends Error {
  override readonly name = 'LimitReached';
}

/**
 * What one task may use, its root model, sub-calls and recursive agents together. It counts what the journal has recorded, so a replay counts
 * the same. Calls that are already under way when a limit is reached are still paid: at most `max_concurrent_subcalls`.
 */
export class TaskLimits {
  readonly #options: RecursiveOptions;
  /** Runs no more than `max_concurrent_subcalls` at a time, first come, first served. */
  readonly concurrently: <T>(call: () => Promise<T>) => Promise<T>;
  #subcalls = 0;
  #tokens = 0;
  #usd = new Big(0);

  constructor(options: RecursiveOptions) {
    this.#options = options;
    this.concurrently = pLimit(options.max_concurrent_subcalls);
  }

  get subcalls(): number {
    return this.#subcalls;
  }

  /** Counts a sub-call about to be made. Throws, for the code that wants it, when there are no more. */
  takeSubcall(): void {
    const { max_subcalls } = this.#options;
    if (this.#subcalls >= max_subcalls)
      throw new Error(`the limit of ${max_subcalls} sub-calls is reached; answer with what is known`);
    this.#subcalls += 1;
  }

  /** Throws LimitReached when nothing more may be spent. */
  checkSpending(): void {
    const { max_task_tokens: tokens, max_task_usd: usd } = this.#options;
    if (tokens !== undefined && this.#tokens >= tokens)
      throw new LimitReached(`the task has used ${this.#tokens} tokens; its limit is max_task_tokens=${tokens}`);
    if (usd !== undefined && this.#usd.gte(usd))
      throw new LimitReached(`the task has spent US$ ${this.#usd.toFixed()}; its limit is max_task_usd=${usd}`);
  }

  /** Counts what a call has used. Throws LimitReached where a limit in dollars cannot be kept, because what answered has no known price. */
  charge(model: { asked: string; answered: string }, tokens: number, usd: string | undefined): void {
    this.#tokens += tokens;
    if (usd !== undefined) this.#usd = this.#usd.plus(usd);
    else if (this.#options.max_task_usd !== undefined)
      throw new LimitReached(`${nameOf(model)} has no known price, so max_task_usd cannot be kept`);
  }
}

/** The price is that of the model which answered: a gateway, or the batch's fall-back, may have asked another than the task did. */
function nameOf({ asked, answered }: { asked: string; answered: string }): string {
  return answered === asked ? `model ${asked}` : `model ${answered}, which answered in the stead of ${asked},`;
}

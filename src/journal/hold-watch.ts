import Big from 'big.js';

/** What is about to be set aside for one dispatch. */
export interface WatchedHold {
  batchKey: string;
  model: string;
  usd: Big;
  /** The most it may write, as its request says. */
  outputTokens: number;
  /** What its whole task may spend, in dollars; undefined: no limit. */
  taskBudget: Big | undefined;
}

/** What a hold is compared with: more than a tenth of its task's budget is absurd … */
const SHARE_OF_TASK = 10;
/** … and so is 20 times what a call has cost on average, once as many calls have been paid. */
const TIMES_MEAN = 20;
const CALLS_FOR_MEAN = 10;

/**
 * Sees absurd holds, which an SDK's default of 128,000 output tokens makes of any call: they let a budget stop a night that costs a fraction
 * of it. Warns once for each batch and model in a process, and changes nothing.
 */
export class HoldWatch {
  readonly #warn: (batchKey: string, message: string) => void;
  readonly #paid = new Map<string, { calls: number; usd: Big }>();
  readonly #warned = new Set<string>();

  constructor(warn: (batchKey: string, message: string) => void) {
    this.#warn = warn;
  }

  /** Looks at a hold. */
  see(hold: WatchedHold): void {
    const key = keyOf(hold.batchKey, hold.model);
    const why = this.#warned.has(key) ? undefined : this.#whyAbsurd(hold, key);
    if (why === undefined) return;
    this.#warned.add(key);
    this.#warn(
      hold.batchKey,
      `a call of model ${hold.model} asks for up to ${hold.outputTokens} output tokens, so US$ ${hold.usd.toFixed()} are set aside for it: ` +
        `${why}. Holds that large use up a budget long before the money is spent: load the batch with --max-output-tokens N, ` +
        'or have the agent ask for fewer',
    );
  }

  /** Learns what a call has cost, in dollars. */
  paid(batchKey: string, model: string, usd: Big): void {
    const key = keyOf(batchKey, model);
    const before = this.#paid.get(key) ?? { calls: 0, usd: new Big(0) };
    this.#paid.set(key, { calls: before.calls + 1, usd: before.usd.plus(usd) });
  }

  #whyAbsurd({ usd, taskBudget }: WatchedHold, key: string): string | undefined {
    if (taskBudget !== undefined && usd.times(SHARE_OF_TASK).gt(taskBudget))
      return `more than a tenth of the US$ ${taskBudget.toFixed()} that its whole task may spend`;
    const paid = this.#paid.get(key);
    if (paid === undefined || paid.calls < CALLS_FOR_MEAN || paid.usd.eq(0)) return undefined;
    const mean = paid.usd.div(paid.calls);
    return usd.gte(mean.times(TIMES_MEAN))
      ? `${usd.div(mean).round(0).toFixed()} times the US$ ${mean.round(6).toFixed()} that such a call has cost on average`
      : undefined;
  }
}

function keyOf(batchKey: string, model: string): string {
  return `${batchKey} ${model}`;
}

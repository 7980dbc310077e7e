import Big from 'big.js';
import type { FallBackSetting, Funds } from '../lease/claim.ts';
import type { Drawn } from '../lease/draw.ts';
import type { Verdict } from './verdict.ts';

/** The worst case of one dispatch, set aside before its intent. To be ended once, by one of the three. */
export interface Hold {
  /** It was charged: what it cost is spent, the rest is free again. */
  settle(cost: Big): void;
  /** It cost nothing. */
  release(): void;
  /** Nobody knows: the money stays set aside until the doubt is settled, which is not this attempt's business any more. */
  keep(): void;
}

export type HoldResult =
  | { kind: 'held'; hold: Hold }
  | { kind: 'ended'; verdict: Verdict }
  /** The run was over before there was money. */
  | { kind: 'unwanted' };

/**
 * The purse of one attempt: `spent + held <= allowance`, for every dispatch before it is sent (invariant 7). The lease holder is the only
 * writer, so the count is kept here; the database shrinks the allowance to what the journal says when the attempt ends (db/migrations/0017_budget.sql).
 */
export class Allowance {
  readonly #funds: Funds;
  readonly #draw: (needed: Big, asked: Big) => Promise<Drawn>;
  #allowance: Big;
  #spent = new Big(0);
  #held = new Big(0);
  #underWay = 0;
  #turn: Promise<unknown> = Promise.resolve();
  #settled = Promise.withResolvers<void>();

  /** `draw` asks the database for at least `needed` dollars, rather `asked`. */
  constructor(funds: Funds, draw: (needed: Big, asked: Big) => Promise<Drawn>) {
    this.#funds = funds;
    this.#draw = draw;
    this.#allowance = funds.allowance ?? new Big(0);
  }

  /** Whether each minute's spending of its batch is written down, for the velocity limit. */
  get countsVelocity(): boolean {
    return this.#funds.countsVelocity;
  }

  /** Output tokens that a call may ask for; undefined: any number. */
  get maxOutputTokens(): number | undefined {
    return this.#funds.maxOutputTokens;
  }

  /** Dollars that the whole task may spend; undefined: no limit. */
  get taskBudget(): Big | undefined {
    return this.#funds.taskBudget;
  }

  /** The model that a call may ask in the stead of its own; undefined: none. */
  get fallBack(): FallBackSetting | undefined {
    return this.#funds.fallBack;
  }

  /** Sets aside `worst` dollars, in the order asked. Where money is short it waits for the task's own calls under way, whose holds are larger than their costs. */
  hold(worst: Big, over: AbortSignal): Promise<HoldResult> {
    if (this.#funds.allowance === undefined) return Promise.resolve(this.#setAside(worst));
    const result = this.#turn.then(() => this.#holdInTurn(worst, over));
    this.#turn = result.catch(() => undefined); // its failure is its caller's
    return result;
  }

  async #holdInTurn(worst: Big, over: AbortSignal): Promise<HoldResult> {
    for (;;) {
      if (over.aborted) return { kind: 'unwanted' };
      const obstacle = this.#overTaskBudget(worst) ?? (await this.#drawFor(worst));
      if (obstacle === undefined) return this.#setAside(worst);
      if (this.#underWay === 0 || obstacle.kind === 'lost') return { kind: 'ended', verdict: obstacle };
      await this.#settled.promise;
    }
  }

  #overTaskBudget(worst: Big): Verdict | undefined {
    const { taskBudget, committed } = this.#funds;
    const used = committed.plus(this.#spent).plus(this.#held);
    if (taskBudget === undefined || used.plus(worst).lte(taskBudget)) return undefined;
    return {
      kind: 'refused',
      message: `the next call may cost US$ ${worst.toFixed()}; the task has spent or holds US$ ${used.toFixed()} of the US$ ${taskBudget.toFixed()} it may spend. A person raises that with madrugada batch budget ID --task USD, and retries it`,
    };
  }

  async #drawFor(worst: Big): Promise<Verdict | undefined> {
    const missing = this.#spent.plus(this.#held).plus(worst).minus(this.#allowance);
    if (missing.lte(0)) return undefined;
    const drawn = await this.#draw(missing, missing.plus(this.#allowance)); // doubling: a few draws a task
    switch (drawn.kind) {
      case 'granted':
        this.#allowance = this.#allowance.plus(drawn.usd);
        return undefined;
      case 'refused':
        return {
          kind: 'parked',
          waitingFor: 'budget',
          until: undefined,
          needs: worst,
          message: `the next call may cost US$ ${worst.toFixed()}, and ${drawn.limit} has US$ ${drawn.free.toFixed()} left`,
        };
      case 'lost':
        return { kind: 'lost', message: 'the lease was lost while money was drawn' };
    }
  }

  #setAside(worst: Big): HoldResult {
    this.#held = this.#held.plus(worst);
    this.#underWay += 1;
    return {
      kind: 'held',
      hold: {
        settle: (cost) => {
          this.#spent = this.#spent.plus(cost);
          this.#end(worst);
        },
        release: () => this.#end(worst),
        keep: () => this.#end(new Big(0)),
      },
    };
  }

  #end(freed: Big): void {
    this.#underWay -= 1;
    this.#held = this.#held.minus(freed);
    this.#settled.resolve();
    this.#settled = Promise.withResolvers();
  }
}

import Big from 'big.js';
import type { Allowance, Hold } from './allowance.ts';
import type { JournalEnvironment } from './environment.ts';
import { askingOf } from './fall-back.ts';
import type { Lease } from './lease.ts';
import type { OutgoingCall } from './live-call.ts';
import { plainBody } from './request.ts';
import type { OutcomeKind } from './rows.ts';
import type { Verdict } from './verdict.ts';

/** The money set aside for one dispatch, from before its intent until its outcome is recorded. */
export class DispatchHold {
  /** Dollars as an exact decimal. */
  readonly worstCaseUsd: string;
  readonly #hold: Hold;
  readonly #noteUnderWay: (usd: Big) => void;
  readonly #notePaid: (usd: Big) => void;

  /** `noteUnderWay` hears of what is under way for the velocity limit, `notePaid` of what it has cost. */
  constructor(worstCase: Big, hold: Hold, noteUnderWay: (usd: Big) => void, notePaid: (usd: Big) => void) {
    this.worstCaseUsd = worstCase.toFixed();
    this.#hold = hold;
    this.#noteUnderWay = noteUnderWay;
    this.#notePaid = notePaid;
    noteUnderWay(worstCase);
  }

  /** Nothing was sent, nor will be. */
  withdraw(): void {
    this.sendingEnded();
    this.#hold.release();
  }

  /** To be said before the outcome is written: the note that is committed with it counts what it cost. */
  sendingEnded(): void {
    this.#noteUnderWay(new Big(this.worstCaseUsd).neg());
  }

  /** The outcome is recorded. A charge whose price is not known keeps its worst case, like a doubt. */
  settle(kind: OutcomeKind, costUsd: string | undefined): void {
    if (kind === 'refused' || kind === 'not_sent') this.#hold.release();
    else if (costUsd === undefined) this.#hold.keep();
    else {
      this.#hold.settle(new Big(costUsd));
      this.#notePaid(new Big(costUsd));
    }
  }
}

/** Sets aside what a dispatch can cost at most (invariant 7). One whose worst case has no bound or no price never goes out. */
export async function holdWorstCase(
  env: JournalEnvironment,
  lease: Lease,
  call: OutgoingCall,
  allowance: Allowance,
  over: AbortSignal,
): Promise<DispatchHold | { kind: 'ended'; verdict: Verdict } | { kind: 'unwanted' }> {
  const { request, model } = askingOf(call);
  const { method, url } = request;
  const worst = env.prices.worstCaseOf({ method, path: url.pathname, body: plainBody(request) }, model, new Date());
  if ('problem' in worst)
    return {
      kind: 'ended',
      verdict: { kind: 'refused', message: `task ${lease.key}, call ${call.seq}: ${worst.problem}` },
    };
  const { batchKey } = lease;
  if (model !== undefined) env.holds.see({ batchKey, model, taskBudget: allowance.taskBudget, ...worst });
  const result = await allowance.hold(worst.usd, over);
  if (result.kind !== 'held') return result;
  const noteUnderWay = (usd: Big) => {
    if (allowance.countsVelocity) env.writer.held.change(batchKey, usd);
  };
  const notePaid = (usd: Big) => {
    if (model !== undefined) env.holds.paid(batchKey, model, usd);
  };
  return new DispatchHold(worst.usd, result.hold, noteUnderWay, notePaid);
}

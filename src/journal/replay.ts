import type { RecordedCall, RecordedJournal, RecordedStep } from './load-journal.ts';

/** What of a task's journal the running attempt has used, and what it still has to use before anything new may be sent (invariant 3). */
export class Replay {
  readonly #calls: Map<string, RecordedCall>;
  readonly #steps: Map<string, RecordedStep>;
  readonly #byIssue: RecordedCall[];
  readonly #used = new Set<RecordedCall | RecordedStep>();
  readonly #total: number;
  readonly #lastStepNo: number;
  #issued = 0;

  constructor(journal: RecordedJournal) {
    this.#calls = new Map(
      journal.calls.map((call) => [callKey(call.scope, call.requestSha256, call.occurrence), call]),
    );
    this.#steps = new Map(journal.steps.map((step) => [stepKey(step), step]));
    this.#byIssue = [...journal.calls].sort((a, b) => a.afterNo - b.afterNo);
    this.#total = journal.calls.length + journal.steps.length;
    this.#lastStepNo = journal.lastStepNo;
  }

  /** The recorded call of this identity, which thereby counts as used. */
  takeCall(scope: string, requestSha256: string, occurrence: number): RecordedCall | undefined {
    return this.#take(this.#calls.get(callKey(scope, requestSha256, occurrence)));
  }

  takeStep(step: Pick<RecordedStep, 'scope' | 'kind' | 'name' | 'occurrence'>): RecordedStep | undefined {
    return this.#take(this.#steps.get(stepKey(step)));
  }

  get hasUnused(): boolean {
    return this.#used.size < this.#total;
  }

  /** The first recorded call, else step, that the code has not asked for. */
  firstUnused(): RecordedCall | RecordedStep | undefined {
    return [...this.#calls.values(), ...this.#steps.values()].find((record) => !this.#used.has(record));
  }

  firstUnusedSeq(): number | undefined {
    return [...this.#calls.values()].find((call) => !this.#used.has(call))?.seq;
  }

  /** The last recorded call that was issued before anything was known of the result, or step, at this place. */
  lastSeqIssuedBefore(completedNo: number): number | undefined {
    return this.#byIssue.findLast((call) => call.afterNo < completedNo)?.seq;
  }

  /**
   * True when the code had gone on from the result at this place: it issued a call, took a step or aborted a call afterwards. Results of calls
   * that were on their way already do not show that.
   */
  hasLater(completedNo: number): boolean {
    return this.#lastStepNo > completedNo || (this.#byIssue.at(-1)?.afterNo ?? -1) >= completedNo;
  }

  /** True when every call that had been issued before the result at this place has been issued again. */
  hasReissuedAllBefore(completedNo: number): boolean {
    for (;;) {
      const next = this.#byIssue[this.#issued];
      if (next === undefined || next.afterNo >= completedNo) return true;
      if (!this.#used.has(next)) return false;
      this.#issued += 1;
    }
  }

  #take<T extends RecordedCall | RecordedStep>(record: T | undefined): T | undefined {
    if (record) this.#used.add(record);
    return record;
  }
}

function callKey(scope: string, requestSha256: string, occurrence: number): string {
  return JSON.stringify([scope, requestSha256, occurrence]);
}

function stepKey(step: Pick<RecordedStep, 'scope' | 'kind' | 'name' | 'occurrence'>): string {
  return JSON.stringify([step.scope, step.kind, step.name, step.occurrence]);
}

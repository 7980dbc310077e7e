import { setTimeout as delay } from 'node:timers/promises';
import { insideStep, refusalInsideStep } from './inside-step.ts';
import type { JournalWriter } from './journal-writer.ts';
import type { Lease } from './lease.ts';
import type { RecordedStep } from './load-journal.ts';
import type { ReleaseQueue } from './release-queue.ts';
import type { Replay } from './replay.ts';

/** What the steps need of their session. */
interface Host {
  isOver(): boolean;
  onIssue(): void;
  /** A step's function is over, or a journaled timer has fired, and that is recorded. */
  onEnd(): void;
  onLost(): void;
  /** The run is in another state than the one recorded, at this place, at the checkpoint of this name. */
  onOtherState(checkpoint: string, completedNo: number): void;
  track(work: Promise<unknown>): void;
  /**
   * Resolves when an action that is not recorded may be begun: like a call, when every record has been used (invariant 3). One that is reopened may
   * be at once, and gets the place in the completion order that its outcome takes.
   */
  mayAct(name: string, occurrence: number): Promise<number | undefined>;
}

type Kind = RecordedStep['kind'];
/** Kinds whose value is at hand at once, so that the code need not wait for it. */
type ImmediateKind = 'now' | 'random' | 'checkpoint';

export function isImmediate(kind: Kind): kind is ImmediateKind {
  return kind === 'now' || kind === 'random' || kind === 'checkpoint';
}

/**
 * What is not a model call but may differ between runs. Values are journaled, free, and returned again on replay; they are queued before any
 * later intent, so that no call commits without the values it was built from (rule R3).
 */
export class Steps {
  readonly #writer: JournalWriter;
  readonly #lease: Lease;
  readonly #replay: Replay;
  readonly #queue: ReleaseQueue;
  readonly #host: Host;
  readonly #occurrences = new Map<string, number>();
  #running = 0;

  constructor(writer: JournalWriter, lease: Lease, replay: Replay, queue: ReleaseQueue, host: Host) {
    this.#writer = writer;
    this.#lease = lease;
    this.#replay = replay;
    this.#queue = queue;
    this.#host = host;
  }

  /** True while a step's function runs or a journaled timer has not fired. */
  get areRunning(): boolean {
    return this.#running > 0;
  }

  /**
   * Runs `fn` once in the life of the task; its result must survive JSON. A step that throws is not recorded, and runs again next time. Nothing
   * else may be journaled inside of it.
   */
  run<T>(scope: string, kind: Exclude<Kind, ImmediateKind>, name: string, fn: () => T | Promise<T>): Promise<T> {
    if (this.#host.isOver())
      return Promise.reject(new Error(`task ${this.#lease.key}: step "${name}" was started after its run had ended`));
    const problem = refusalInsideStep(`${kind} "${name}"`);
    if (problem) return Promise.reject(new Error(`task ${this.#lease.key}: ${problem}`));
    const identity = { scope, kind, name, occurrence: this.#nextOccurrence(scope, kind, name) };
    const recorded = this.#replay.takeStep(identity);
    const result = new Promise<T>((resolve, reject) => {
      if (recorded) this.#queue.request(recorded.completedNo, () => resolve(JSON.parse(recorded.value)));
      else this.#runLive(identity, fn, resolve).catch(reject);
    });
    this.#host.onIssue();
    return result;
  }

  /** A value that is at hand at once: recorded in the background, before anything that is issued later. */
  value<T>(scope: string, kind: Exclude<ImmediateKind, 'checkpoint'>, name: string, generate: () => T): T {
    const value = generate();
    const recorded = this.#recall(scope, kind, name, value);
    return recorded ? JSON.parse(recorded.value) : value;
  }

  /** Records `state` the first time; a replay in another state ends the attempt as diverged. */
  checkpoint(scope: string, name: string, state: string): void {
    const recorded = this.#recall(scope, 'checkpoint', name, state);
    if (recorded && JSON.parse(recorded.value) !== state) this.#host.onOtherState(name, recorded.completedNo);
  }

  /** What is recorded here; undefined the first time, when `value` is put on record. */
  #recall(scope: string, kind: ImmediateKind, name: string, value: unknown): RecordedStep | undefined {
    const problem = refusalInsideStep(`task.${kind}()`);
    if (problem) throw new Error(`task ${this.#lease.key}: ${problem}`);
    const identity = { scope, kind, name, occurrence: this.#nextOccurrence(scope, kind, name) };
    const recorded = this.#replay.takeStep(identity);
    if (recorded) this.#host.onIssue();
    else if (!this.#host.isOver()) this.#host.track(this.#record(identity, JSON.stringify(value), true));
    return recorded;
  }

  /** Records that the code aborted an issue of a call; on replay that issue stays pending until it is aborted again. */
  async recordAbort(seq: number, ordinal: number): Promise<void> {
    await this.#record({ scope: '', kind: 'abort', name: String(seq), occurrence: ordinal }, 'null');
  }

  async #runLive<T>(identity: StepIdentity, fn: () => T | Promise<T>, resolve: (value: T) => void): Promise<void> {
    const place = identity.kind === 'action' ? await this.#host.mayAct(identity.name, identity.occurrence) : undefined;
    this.#running += 1;
    try {
      const value = JSON.stringify((await insideStep(identity.name, fn)) ?? null);
      if (this.#host.isOver()) return;
      const recording = this.#record(identity, value);
      this.#host.track(recording);
      const completedNo = await recording;
      if (completedNo !== undefined) this.#queue.add(place ?? completedNo, () => resolve(JSON.parse(value)));
    } finally {
      this.#running -= 1;
      this.#host.onEnd();
    }
  }

  async #record(identity: StepIdentity, value: string, unhurried = false): Promise<number | undefined> {
    const row = { lease: this.#lease, ...identity, value };
    const completed = await (unhurried ? this.#writer.writeStepUnhurried(row) : this.#writer.writeStep(row));
    if (completed === undefined) this.#host.onLost();
    return completed?.completedNo;
  }

  #nextOccurrence(scope: string, kind: Kind, name: string): number {
    const key = JSON.stringify([scope, kind, name]);
    const occurrence = (this.#occurrences.get(key) ?? 0) + 1;
    this.#occurrences.set(key, occurrence);
    return occurrence;
  }
}

interface StepIdentity {
  scope: string;
  kind: Kind | 'abort';
  name: string;
  occurrence: number;
}

/** Waits in real time: the body of `task.sleep` and `task.timeout`, whose firing is what is journaled. */
export async function elapse(ms: number): Promise<null> {
  await delay(ms);
  return null;
}

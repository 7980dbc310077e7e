import { setTimeout as delay } from 'node:timers/promises';
import { type Client, DatabaseError } from 'pg';
import { failpoint } from '../failpoint.ts';
import { isConnectionLoss } from '../postgres/connection-loss.ts';
import { findWritten } from './find-written.ts';
import { HeldByBatch } from './held-by-batch.ts';
import type { IntentRow, OutcomeRow, StepRow } from './rows.ts';
import { type Group, intentKey, outcomeKey, stepKey, type Written, writeGroup } from './write-group.ts';

/** Outcome of a committed outcome or step: its place in the completion order; `answers` false: another dispatch answered first. */
export interface Completed {
  completedNo: number;
  answers: boolean;
}

type Entry =
  | { table: 'step'; row: StepRow; done: (completed: Completed | undefined) => void; failed: (error: unknown) => void }
  | {
      table: 'outcome';
      row: OutcomeRow;
      done: (completed: Completed | undefined) => void;
      failed: (error: unknown) => void;
    }
  | {
      table: 'intent';
      row: IntentRow;
      done: (completed: Completed | undefined) => void;
      failed: (error: unknown) => void;
    };

const MAX_GROUP_ROWS = 256;
const MAX_GROUP_BYTES = 8_000_000;
const RECONNECT_MS = [50, 100, 250, 500, 1000];

/**
 * The one writer connection of a process (rule R2). While a commit is under way, what comes meanwhile queues up and goes out as the next
 * group. A lost connection is survived: the same keyed rows are sent again, and then looked at, never assumed (rule R8).
 */
export class JournalWriter {
  readonly held = new HeldByBatch();
  readonly #connect: () => Promise<Client>;
  #client: Client | undefined;
  #queue: Entry[] = [];
  /** Rows nobody waits for: they go out with the next that somebody does, and before it. */
  #unhurried: Entry[] = [];
  #working: Promise<void> | undefined;
  #closed = false;

  /** `connect` opens a connection under the worker role; it is called again whenever the connection is lost. */
  constructor(connect: () => Promise<Client>) {
    this.#connect = connect;
  }

  /** True: the intent is committed. False: the fence refused it, nothing may be sent. */
  async writeIntent(row: IntentRow): Promise<boolean> {
    return (await this.#enqueue((done, failed) => ({ table: 'intent', row, done, failed }))) !== undefined;
  }

  /** Commits an outcome, whatever became of the lease meanwhile (invariant 2). */
  async writeOutcome(row: OutcomeRow): Promise<Completed> {
    const completed = await this.#enqueue((done, failed) => ({ table: 'outcome', row, done, failed }));
    if (completed === undefined)
      throw new Error(`the outcome of call ${row.seq} of task ${row.lease.key} was not written`);
    return completed;
  }

  /** Commits a step's value; undefined: the lease is gone. */
  writeStep(row: StepRow): Promise<Completed | undefined> {
    return this.#enqueue((done, failed) => ({ table: 'step', row, done, failed }));
  }

  /** As `writeStep`, for a value that the code has already: it shares the commit of the next other row, or waits for `flush`. */
  writeStepUnhurried(row: StepRow): Promise<Completed | undefined> {
    return new Promise((done, failed) => {
      this.#unhurried.push({ table: 'step', row, done, failed });
    });
  }

  /** Sends what is not in a hurry on its way. */
  flush(): void {
    this.#queue.push(...this.#unhurried.splice(0));
    if (this.#queue.length > 0) this.#working ??= this.#work();
  }

  /** Waits until everything queued is committed, then closes the connection. */
  async close(): Promise<void> {
    this.flush();
    await this.#working;
    this.#closed = true;
    await this.#client?.end();
  }

  #enqueue(entry: (done: Entry['done'], failed: Entry['failed']) => Entry): Promise<Completed | undefined> {
    return new Promise((resolve, reject) => {
      this.#unhurried.push(entry(resolve, reject));
      this.flush();
    });
  }

  async #work(): Promise<void> {
    try {
      while (this.#queue.length > 0) {
        await null; // calls that code makes at the same time come one microtask after the other: they share a group
        await this.#write(this.#nextGroup(), false);
      }
    } finally {
      this.#working = undefined; // in the same turn as the last look at the queue, or a row queued in between would wait for ever
    }
  }

  #nextGroup(): Entry[] {
    let bytes = 0;
    const count = this.#queue.findIndex((entry, index) => {
      bytes += sizeOf(entry);
      return index > 0 && (index >= MAX_GROUP_ROWS || bytes > MAX_GROUP_BYTES);
    });
    return this.#queue.splice(0, count === -1 ? this.#queue.length : count);
  }

  /** Writes entries until each is committed or refused. `repeated`: an earlier try may have been committed without our seeing it. */
  async #write(entries: Entry[], repeated: boolean): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        this.#client ??= await this.#connect();
        await failpoint('journal.group.before');
        const group = groupOf(entries);
        const written = await writeGroup(this.#client, group, this.held.notesFor(group));
        await failpoint('journal.group.after');
        return settle(entries, repeated ? await findWritten(this.#client, group, written) : written);
      } catch (error) {
        if (isConnectionLoss(error)) {
          repeated = true;
          await this.#disconnect();
          if (this.#closed) throw error;
        } else if (!isPassing(error)) {
          return this.#writeOneByOne(entries, repeated, error);
        }
        await delay(RECONNECT_MS[Math.min(attempt, RECONNECT_MS.length - 1)]);
      }
    }
  }

  /** One bad row must not take others' charged outcomes along (rule R8). */
  async #writeOneByOne(entries: Entry[], repeated: boolean, error: unknown): Promise<void> {
    const [only] = entries;
    if (entries.length > 1 || only === undefined) {
      for (const entry of entries) await this.#write([entry], repeated);
    } else if (only.table === 'outcome' && isAnsweredMeanwhile(error)) {
      await this.#write(entries, repeated); // the other answer is committed now, so this time the row goes in with answers = false
    } else {
      only.failed(error);
    }
  }

  async #disconnect(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => undefined); // it is lost already
  }
}

function groupOf(entries: Entry[]): Group {
  return {
    steps: entries.flatMap((entry) => (entry.table === 'step' ? [entry.row] : [])),
    outcomes: entries.flatMap((entry) => (entry.table === 'outcome' ? [entry.row] : [])),
    intents: entries.flatMap((entry) => (entry.table === 'intent' ? [entry.row] : [])),
  };
}

/** Tells every writer what became of its row: results in completion order, which is the order their callers must see, intents last. */
function settle(entries: Entry[], written: Written): void {
  const results = entries.map((entry) => ({ entry, completed: completedOf(entry, written) }));
  results.sort((a, b) => (a.completed?.completedNo ?? Infinity) - (b.completed?.completedNo ?? Infinity));
  for (const { entry, completed } of results) entry.done(completed);
}

function completedOf(entry: Entry, written: Written): Completed | undefined {
  switch (entry.table) {
    case 'step': {
      const completedNo = written.steps.get(stepKey(entry.row));
      return completedNo === undefined ? undefined : { completedNo, answers: false };
    }
    case 'outcome':
      return written.outcomes.get(outcomeKey(entry.row));
    case 'intent':
      return written.intents.has(intentKey(entry.row)) ? { completedNo: Infinity, answers: false } : undefined;
  }
}

function sizeOf(entry: Entry): number {
  switch (entry.table) {
    case 'step':
      return entry.row.value.length;
    case 'outcome':
      return entry.row.response?.length ?? 0;
    case 'intent':
      return entry.row.request.length;
  }
}

/** SQLSTATEs of a statement that failed for no fault of its rows: deadlock, no room, lock not to be had, cancelled, no primary. */
const PASSING = /^(40|53|55|57|58|25006)/;

function isPassing(error: unknown): boolean {
  return error instanceof DatabaseError && PASSING.test(error.code ?? '');
}

function isAnsweredMeanwhile(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === '23505';
}

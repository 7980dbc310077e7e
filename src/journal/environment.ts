import type { Pool } from 'pg';
import type { Logger } from 'pino';
import type { Dispatcher } from 'undici';
import type { Pace } from '../provider/pace.ts';
import type { PriceBook } from '../provider/prices.ts';
import type { HoldWatch } from './hold-watch.ts';
import type { JournalWriter } from './journal-writer.ts';
import type { LookUp } from './look-up.ts';
import type { Tagging } from './tag.ts';

/** How long and how often, for every call of a process. Times in milliseconds. */
export interface Limits {
  /** Total time of one dispatch, from before its intent to its last byte. */
  dispatchMs: number;
  /** Longest silence before the head of a response; an answer that is not streamed is silent until it is finished. */
  headersMs: number;
  /** Longest silence within a body, or between the events of a stream, before the response counts as stalled. */
  idleMs: number;
  /** How long a task may stay at rest with recorded calls unused before it counts as diverged (rule R4). */
  restMs: number;
  /** Dispatches of one call before its refusal is shown to the agent. */
  maxDispatches: number;
  /** Time of one call over all its dispatches and the waits between, after which its last refusal is shown to the agent. */
  callMs: number;
  /** The longest wait that a provider's `retry-after` is believed. */
  retryAfterCapMs: number;
  /** The longest wait for a provider that a slot sits out; a longer one parks the task. */
  maxWaitMs: number;
  /** Identical calls that one run of a task may make; more stop its batch, because an agent in a loop pays all night. */
  maxIdenticalCalls: number;
}

export const DEFAULT_LIMITS: Limits = {
  dispatchMs: 600_000,
  maxIdenticalCalls: 20,
  headersMs: 600_000,
  idleMs: 60_000,
  restMs: 60_000,
  maxDispatches: 8,
  callMs: 3 * 3_600_000,
  retryAfterCapMs: 3_600_000,
  maxWaitMs: 60_000,
};

/** What the attempts of one process share. */
export interface JournalEnvironment {
  writer: JournalWriter;
  /** For reading the journal; under the worker role like the writer. */
  pool: Pool;
  dispatcher: Dispatcher;
  prices: PriceBook;
  pace: Pace;
  holds: HoldWatch;
  limits: Limits;
  /** Where a dispatch in doubt is looked up before it is paid again; undefined: nowhere. */
  lookUp: LookUp | undefined;
  tagging: Tagging;
  log: Logger;
  /** Told of every charge, for the progress of the night: dollars, undefined where the price is not known. */
  onCharge: (usd: string | undefined) => void;
  /** `MADRUGADA_ALWAYS_REPLAY`: every live answer abandons the run, which then starts over from the journal. */
  alwaysReplay: boolean;
}

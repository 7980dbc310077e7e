import type { Pool } from 'pg';
import type { Dispatcher } from 'undici';
import type { PriceBook } from '../provider/prices.ts';
import type { JournalWriter } from './journal-writer.ts';
import type { Tagging } from './tag.ts';

/** How long and how often, for every call of a process. Times in milliseconds. */
export interface Limits {
  /** Total time of one dispatch, from before its intent to its last byte. */
  dispatchMs: number;
  /** How long a task may stay at rest with recorded calls unused before it counts as diverged (rule R4). */
  restMs: number;
  /** Dispatches of one call before its refusal is shown to the agent. */
  maxDispatches: number;
  /** The longest wait for a provider that a slot sits out; a longer one parks the task. */
  maxWaitMs: number;
}

export const DEFAULT_LIMITS: Limits = { dispatchMs: 600_000, restMs: 60_000, maxDispatches: 8, maxWaitMs: 60_000 };

/** What the attempts of one process share. */
export interface JournalEnvironment {
  writer: JournalWriter;
  /** For reading the journal; under the worker role like the writer. */
  pool: Pool;
  dispatcher: Dispatcher;
  prices: PriceBook;
  limits: Limits;
  tagging: Tagging;
  /** Told of every charge, for the progress of the night: dollars, undefined where the price is not known. */
  onCharge: (usd: string | undefined) => void;
  /** `MADRUGADA_ALWAYS_REPLAY`: every live answer abandons the run, which then starts over from the journal. */
  alwaysReplay: boolean;
}

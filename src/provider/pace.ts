import type { Pool } from 'pg';
import { patiently } from '../postgres/patiently.ts';
import { announcedLimits, countsCacheReads } from './rate-limits.ts';
import { retryAfterMs } from './retry-after.ts';
import type { Usage } from './usage.ts';

/** Tokens that a dispatch has used, by kind; of cache reads and writes undefined where its provider does not say. */
export type UsedTokens = Pick<Usage, 'inputTokens' | 'outputTokens'> & Partial<Record<CacheKind, number | undefined>>;
type CacheKind = 'cacheReadTokens' | 'cacheWrite5mTokens' | 'cacheWrite1hTokens';

/** Whom a dispatch goes to: what a provider counts together. */
export interface PacedAddress {
  origin: string;
  /** Undefined: the request names none. */
  model: string | undefined;
}

/** Tokens that a dispatch may use at most. */
export interface Tokens {
  input: number;
  output: number;
}

/**
 * When a dispatch may go out: after a wait in milliseconds, with what it has taken of the provider's limits meanwhile; or (parked) not before
 * a moment too far off to wait for. `isCounted`: it has a place in the rate of requests; where the pace does not hold nobody counts.
 */
export type Turn =
  | { kind: 'turn'; waitMs: number; taken: Tokens; isCounted: boolean }
  | { kind: 'parked'; until: Date };

/** Taken where the pace does not hold: nothing is counted. */
export const NO_TOKENS: Tokens = { input: 0, output: 0 };

/** The pause after a refusal that names none. */
const PAUSE_MS = 1_000;
/** A model's name is the agent's own text; the table's key takes no more. */
const LONGEST_MODEL = 200;

/**
 * The pace at which the whole fleet may ask a provider, as one process knows it. It costs nothing before the first refusal on account of load
 * (429, 503, 529, or their like inside a stream); from then on every dispatch to that address takes its turn in the database, until an hour has passed without another.
 */
export class Pace {
  readonly #pool: Pool;
  /** The addresses whose turns are given out by the database. */
  readonly #paced = new Set<string>();
  #news = 0;

  /** `pool`: connections under the worker role. */
  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Learns which addresses are paced: at the start, and whenever `madrugada_pace` is notified. Returns how many are. Waits out a database that is away. */
  async refresh(): Promise<number> {
    const { rows } = await patiently(() =>
      this.#pool.query<{ origin: string; model: string }>(
        'SELECT origin, model FROM madrugada.provider_pace p WHERE madrugada.is_paced(p)',
      ),
    );
    this.#news += 1;
    for (const { origin, model } of rows) this.#paced.add(keyOf(origin, model));
    return rows.length;
  }

  /**
   * Takes the next turn at this address, for a dispatch that may use so many tokens (asked only where the pace holds); one more than
   * `mostWaitMs` away is not taken.
   */
  async takeTurn(address: PacedAddress, most: () => Tokens, mostWaitMs: number): Promise<Turn> {
    const { origin } = address;
    const model = nameOf(address);
    if (!this.#paced.has(keyOf(origin, model))) return AT_ONCE;
    const news = this.#news;
    const taken = most();
    const { rows } = await patiently(() =>
      this.#pool.query<{ granted: boolean; wait_ms: number; at: Date }>(
        'SELECT granted, wait_ms, at FROM madrugada.take_turn($1, $2, $3, $4, $5)',
        [origin, model, taken.input, taken.output, mostWaitMs],
      ),
    );
    const [turn] = rows;
    if (turn === undefined) {
      if (news === this.#news) this.#paced.delete(keyOf(origin, model)); // else it was refused again since the database looked
      return AT_ONCE;
    }
    return turn.granted
      ? { kind: 'turn', waitMs: turn.wait_ms, taken, isCounted: true }
      : { kind: 'parked', until: turn.at };
  }

  /** Tells the fleet of a refusal on account of load. What the provider asks to wait is believed up to `capMs`; `isCounted`: as its turn said. */
  async noteRefusal(
    address: PacedAddress,
    headers: Record<string, string>,
    capMs: number,
    isCounted: boolean,
  ): Promise<void> {
    const { origin } = address;
    const model = nameOf(address);
    const pauseMs = Math.min(retryAfterMs(headers, new Date()) ?? PAUSE_MS, capMs);
    await this.#note(origin, model, pauseMs, headers, NO_TOKENS, NO_USE, isCounted);
    this.#news += 1;
    this.#paced.add(keyOf(origin, model));
  }

  /**
   * Tells the fleet, where the pace holds, what a dispatch has used of what its turn took (undefined: nothing), and what its provider
   * announces to be left. To be called at its end, but not where nobody knows what became of it: then it counts as having used all.
   */
  async noteUse(
    address: PacedAddress,
    taken: Tokens,
    usage: UsedTokens | undefined,
    headers: Record<string, string>,
  ): Promise<void> {
    const { origin } = address;
    const model = nameOf(address);
    if (this.#paced.has(keyOf(origin, model)))
      await this.#note(origin, model, null, headers, taken, usage ? useOf(usage, headers) : NO_USE, true);
  }

  async #note(
    origin: string,
    model: string,
    pauseMs: number | null,
    headers: Record<string, string>,
    taken: Tokens,
    used: Use,
    isCounted: boolean,
  ): Promise<void> {
    const announced = JSON.stringify(announcedLimits(headers));
    await patiently(() =>
      this.#pool.query('SELECT madrugada.note_pace($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)', [
        origin,
        model,
        pauseMs,
        announced,
        taken.input,
        taken.output,
        used.input,
        used.output,
        used.tokens,
        isCounted,
      ]),
    );
  }
}

const AT_ONCE: Turn = { kind: 'turn', waitMs: 0, taken: NO_TOKENS, isCounted: false };

/** What a dispatch has used of each of its provider's limits of tokens. */
interface Use extends Tokens {
  /** Of input and output together. */
  tokens: number;
}

const NO_USE: Use = { input: 0, output: 0, tokens: 0 };

/** What was read from the cache is never of the limit of input alone, which only Anthropic has. */
function useOf(usage: UsedTokens, headers: Record<string, string>): Use {
  const {
    inputTokens,
    outputTokens: output,
    cacheReadTokens = 0,
    cacheWrite5mTokens = 0,
    cacheWrite1hTokens = 0,
  } = usage;
  const input = inputTokens + cacheWrite5mTokens + cacheWrite1hTokens;
  return { input, output, tokens: input + output + (countsCacheReads(headers) ? cacheReadTokens : 0) };
}

/** As the table keeps it: PostgreSQL's text has no NUL. */
function nameOf({ model = '' }: PacedAddress): string {
  return model.replaceAll('\0', '').slice(0, LONGEST_MODEL);
}

function keyOf(origin: string, model: string): string {
  return `${origin} ${model}`;
}

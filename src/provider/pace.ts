import type { Pool } from 'pg';
import { patiently } from '../postgres/patiently.ts';
import { isOnAccountOfLoad, requestsPerMinute } from './rate-limits.ts';
import { retryAfterMs } from './retry-after.ts';

/** Whom a dispatch goes to: what a provider counts together. */
export interface PacedAddress {
  origin: string;
  /** Undefined: the request names none. */
  model: string | undefined;
}

/** When a dispatch may go out: after a wait in milliseconds; or (parked) not before a moment too far off to wait for. */
export type Turn = { kind: 'turn'; waitMs: number } | { kind: 'parked'; until: Date };

/** The pause after a refusal that names none. */
const PAUSE_MS = 1_000;
/** A model's name is the agent's own text; the table's key takes no more. */
const LONGEST_MODEL = 200;

/**
 * The pace at which the whole fleet may ask a provider, as one process knows it. It costs nothing before the first refusal on account of load
 * (429, 503, 529); from then on every dispatch to that address takes its turn in the database, until an hour has passed without another.
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

  /** Takes the next turn at this address; one more than `mostWaitMs` away is not taken. */
  async takeTurn(address: PacedAddress, mostWaitMs: number): Promise<Turn> {
    const { origin } = address;
    const model = nameOf(address);
    if (!this.#paced.has(keyOf(origin, model))) return { kind: 'turn', waitMs: 0 };
    const news = this.#news;
    const { rows } = await patiently(() =>
      this.#pool.query<{ granted: boolean; wait_ms: number; at: Date }>(
        'SELECT granted, wait_ms, at FROM madrugada.take_turn($1, $2, $3)',
        [origin, model, mostWaitMs],
      ),
    );
    const [turn] = rows;
    if (turn === undefined) {
      if (news === this.#news) this.#paced.delete(keyOf(origin, model)); // else it was refused again since the database looked
      return { kind: 'turn', waitMs: 0 };
    }
    return turn.granted ? { kind: 'turn', waitMs: turn.wait_ms } : { kind: 'parked', until: turn.at };
  }

  /** Tells the fleet of a refusal, if it was on account of load. What the provider asks to wait is believed up to `capMs`. */
  async noteRefusal(
    address: PacedAddress,
    status: number,
    headers: Record<string, string>,
    capMs: number,
  ): Promise<void> {
    if (!isOnAccountOfLoad(status)) return;
    const { origin } = address;
    const model = nameOf(address);
    const pauseMs = Math.min(retryAfterMs(headers, new Date()) ?? PAUSE_MS, capMs);
    const rate = requestsPerMinute(headers);
    await patiently(() =>
      this.#pool.query('SELECT madrugada.note_refusal($1, $2, $3, $4)', [origin, model, pauseMs, rate]),
    );
    this.#news += 1;
    this.#paced.add(keyOf(origin, model));
  }
}

/** As the table keeps it: PostgreSQL's text has no NUL. */
function nameOf({ model = '' }: PacedAddress): string {
  return model.replaceAll('\0', '').slice(0, LONGEST_MODEL);
}

function keyOf(origin: string, model: string): string {
  return `${origin} ${model}`;
}

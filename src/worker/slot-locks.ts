import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { MadrugadaError } from '../errors.ts';

const RECONNECT_MS = 250;

/** Told of each notification on its channel; undefined: the connection was away, and what was notified meanwhile went unheard. */
export type OnNotification = (payload: string | undefined) => void;

/**
 * The connection that holds the slots' advisory locks and listens for news. It must be a direct one: behind a transaction pooler a session
 * lock means nothing (rule R12).
 */
export class SlotLocks {
  readonly #connect: () => Promise<Client>;
  readonly #slots: Set<string>;
  readonly #channels: ReadonlyMap<string, OnNotification>;
  readonly #onTaken: (slot: string) => void;
  #client: Client | undefined;
  #closed = false;

  /** `channels` are listened to, by their names; `onTaken` is called for a slot that another process took while the connection was lost (rule R6). */
  constructor(
    connect: () => Promise<Client>,
    slots: readonly string[],
    channels: ReadonlyMap<string, OnNotification>,
    onTaken: (slot: string) => void,
  ) {
    this.#connect = connect;
    this.#slots = new Set(slots);
    this.#channels = channels;
    this.#onTaken = onTaken;
  }

  /** Takes all locks. Throws when another process has one of the slots. */
  async take(): Promise<void> {
    const taken = await this.#open();
    if (taken.length > 0)
      throw new MadrugadaError(
        `slot ${taken[0]} is held by another process: give this worker another --slot, or end that one first`,
      );
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#client?.end();
  }

  /** Connects, locks and listens; returns the slots that somebody else has. */
  async #open(): Promise<string[]> {
    const client = await this.#connect();
    this.#client = client;
    client.on('notification', ({ channel, payload }) => this.#channels.get(channel)?.(payload ?? ''));
    client.once('end', () => this.#reopen());
    const taken: string[] = [];
    for (const slot of this.#slots) {
      const { rows } = await client.query<{ locked: boolean }>(
        'SELECT pg_try_advisory_lock(madrugada.slot_lock_class(), madrugada.slot_lock_key($1)) AS locked',
        [slot],
      );
      if (!rows[0]?.locked) taken.push(slot);
    }
    for (const channel of this.#channels.keys()) await client.query(`LISTEN ${client.escapeIdentifier(channel)}`);
    return taken;
  }

  async #reopen(): Promise<void> {
    while (!this.#closed) {
      await delay(RECONNECT_MS);
      try {
        for (const slot of await this.#open()) {
          this.#slots.delete(slot);
          this.#onTaken(slot);
        }
        for (const onNotification of this.#channels.values()) onNotification(undefined);
        return;
      } catch {
        // still away: tried again until the worker ends
      }
    }
  }
}

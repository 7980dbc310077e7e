import { failpoint } from '../failpoint.ts';
import { type AlertChannel, type AlertChannels, channelNames, deliverBy } from './alert-channels.ts';
import type { AlertDocument } from './mail-alert.ts';
import type { Queryable } from './queryable.ts';

/** A delivery that did not get through. */
export interface DeliveryFailure {
  readonly alertId: number;
  readonly channel: AlertChannel;
  readonly error: string;
}

interface Due {
  alert_id: number;
  channel: AlertChannel;
  document: AlertDocument;
}

/**
 * Delivers what is due: every open alert by every channel, each once. One that fails is tried again after 30 s, then after twice as long, at
 * most an hour. Only a process that dies between a delivery and its record brings one twice: the document's `id` tells, and a mail's Message-ID. Returns how many got
 * through. `db` is of the role worker or operator.
 */
export async function deliverAlerts(
  db: Queryable,
  channels: AlertChannels,
  onFailure: (failure: DeliveryFailure) => void,
): Promise<number> {
  const names = channelNames(channels);
  if (names.length === 0) return 0;
  let delivered = 0;
  for (let due = await claim(db, names); due !== undefined; due = await claim(db, names)) {
    const error = await deliverBy(channels, due.channel, due.document);
    await failpoint('alert.record.before');
    await db.query('SELECT madrugada.record_delivery($1, $2, $3)', [due.alert_id, due.channel, error ?? null]);
    if (error === undefined) delivered += 1;
    else onFailure({ alertId: due.alert_id, channel: due.channel, error });
  }
  return delivered;
}

async function claim(db: Queryable, names: readonly AlertChannel[]): Promise<Due | undefined> {
  const { rows } = await db.query<Due>('SELECT alert_id, channel, document FROM madrugada.claim_delivery($1)', [names]);
  return rows[0];
}

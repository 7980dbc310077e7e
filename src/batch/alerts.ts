import type { ClientBase } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { rowsOf, schema } from '../postgres/query-builder.ts';
import { asPerson } from './as-person.ts';
import type { Queryable } from './queryable.ts';

/** Something that a person should know of, and has acknowledged or not. */
export type Alert = {
  readonly id: number;
  readonly raisedAt: Date;
  readonly kind: string;
  /** None: it is of no single batch. */
  readonly batchKey: string | null;
  readonly taskId: number | null;
  readonly message: string;
  readonly acknowledgedAt: Date | null;
  readonly acknowledgedBy: string | null;
  readonly ackNote: string | null;
};

/** All alerts that nobody has acknowledged yet, the oldest first. */
export function openAlerts(db: Queryable): Promise<Alert[]> {
  return rowsOf(db, selectAlerts().where('acknowledged_at', 'is', null));
}

/** Every alert there ever was, the oldest first. */
export function allAlerts(db: Queryable): Promise<Alert[]> {
  return rowsOf(db, selectAlerts());
}

function selectAlerts() {
  return schema
    .selectFrom('alert')
    .select(['id', 'raised_at as raisedAt', 'kind', 'batch_key as batchKey', 'task_id as taskId', 'message'])
    .select(['acknowledged_at as acknowledgedAt', 'acknowledged_by as acknowledgedBy', 'ack_note as ackNote'])
    .orderBy('id');
}

/**
 * A person has seen an alert. Returns false when it was acknowledged before. Throws a MadrugadaError when there is none of this number.
 * `client` is a connection of the role operator.
 */
export async function acknowledgeAlert(
  client: ClientBase,
  id: number,
  by: string,
  note: string | undefined,
): Promise<boolean> {
  return await asPerson(client, { by, reason: note }, async () => {
    const { rows } = await client.query<{ done: boolean | null }>(
      'SELECT madrugada.acknowledge_alert($1, $2) AS done',
      [id, note ?? null],
    );
    const done = rows[0]?.done ?? undefined;
    if (done === undefined)
      throw new MadrugadaError(`there is no alert ${id}; madrugada alert list shows those there are`);
    return done;
  });
}

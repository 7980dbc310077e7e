import type { Queryable } from './queryable.ts';

/** What a slot is doing. Times are the database's. */
export type SlotStatus = {
  readonly slot: string;
  readonly batchKey: string;
  readonly task: string;
  readonly attempt: number;
  readonly since: Date;
  readonly leaseExpiresAt: Date;
  /** The call it sent last in this attempt, none when it has only replayed so far. */
  readonly lastCall: number | null;
  readonly heartbeatAt: Date | null;
};

/** Why tasks that were given back are not claimed yet. */
export type WaitingTasks = { readonly waitingFor: string; readonly tasks: number; readonly until: Date | null };

/** A task a person should look at. */
export type FailedTask = { readonly key: string; readonly message: string };

/** A kind of refusal, by status and reason, over the last ten minutes. */
export type RecentRefusals = {
  readonly status: number | null;
  readonly error: string | null;
  readonly dispatches: number;
};

const FAILED_SHOWN = 20;

/** The slots that hold a task, of one batch or of all. */
export async function busySlots(db: Queryable, key?: string): Promise<SlotStatus[]> {
  const { rows } = await db.query<SlotStatus>(
    `SELECT t.slot, t.batch_key AS "batchKey", t.key AS task, t.lease_token AS attempt, a.started_at AS since,
            t.lease_expires_at AS "leaseExpiresAt", w.heartbeat_at AS "heartbeatAt",
            (SELECT max(i.seq) FROM madrugada.call_intent i
              WHERE i.batch_key = t.batch_key AND i.task_id = t.id AND i.attempt = t.lease_token) AS "lastCall"
       FROM madrugada.task t
       JOIN madrugada.attempt a ON a.task_id = t.id AND a.number = t.lease_token
       LEFT JOIN madrugada.worker w ON w.id = t.worker_id
      WHERE t.state = 'running' AND ($1::text IS NULL OR t.batch_key = $1)
      ORDER BY t.slot, t.key`,
    [key ?? null],
  );
  return rows;
}

/** Pending tasks of a batch that wait for something, by what they wait for. `until` is the next that time alone sets free. */
export async function waitingTasks(db: Queryable, key: string): Promise<WaitingTasks[]> {
  const { rows } = await db.query<WaitingTasks>(
    `SELECT waiting_for AS "waitingFor", count(*)::integer AS tasks, min(not_before) FILTER (WHERE isfinite(not_before)) AS until
       FROM madrugada.task WHERE batch_key = $1 AND state = 'pending' AND waiting_for IS NOT NULL
      GROUP BY waiting_for ORDER BY waiting_for`,
    [key],
  );
  return rows;
}

/** The first 20 failed tasks of a batch. */
export async function failedTasks(db: Queryable, key: string): Promise<FailedTask[]> {
  const { rows } = await db.query<FailedTask>(
    `SELECT key, coalesce(failure ->> 'message', failure::text) AS message
       FROM madrugada.task WHERE batch_key = $1 AND state = 'failed' ORDER BY position LIMIT $2`,
    [key, FAILED_SHOWN],
  );
  return rows;
}

/** What the provider has refused of a batch in the last ten minutes. */
export async function recentRefusals(db: Queryable, key: string): Promise<RecentRefusals[]> {
  const { rows } = await db.query<RecentRefusals>(
    `SELECT status, error, count(*)::integer AS dispatches
       FROM madrugada.call_outcome
      WHERE batch_key = $1 AND kind = 'refused' AND received_at > madrugada.now() - interval '10 minutes'
      GROUP BY status, error ORDER BY dispatches DESC, status, error`,
    [key],
  );
  return rows;
}

/** The reason of the stop of everything that is in force, or undefined. */
export async function stopInForce(db: Queryable): Promise<string | undefined> {
  const { rows } = await db.query<{ reason: string }>(
    'SELECT reason FROM madrugada.stop_switch WHERE lifted_at IS NULL',
  );
  return rows[0]?.reason;
}

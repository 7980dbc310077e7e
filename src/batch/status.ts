import { sql } from 'kysely';
import { rowsOf, schema } from '../postgres/query-builder.ts';
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
export function busySlots(db: Queryable, key?: string): Promise<SlotStatus[]> {
  const query = schema
    .selectFrom('task as t')
    .innerJoin('attempt as a', (join) => join.onRef('a.task_id', '=', 't.id').onRef('a.number', '=', 't.lease_token'))
    .leftJoin('worker as w', 'w.id', 't.worker_id')
    .where('t.state', '=', 'running')
    .$if(key !== undefined, (all) => all.where('t.batch_key', '=', key ?? ''))
    .select(({ ref, selectFrom }) => [
      ref('t.slot').$notNull().as('slot'), // a running task has one
      ref('t.lease_expires_at').$notNull().as('leaseExpiresAt'),
      selectFrom('call_intent as i')
        .whereRef('i.batch_key', '=', 't.batch_key')
        .whereRef('i.task_id', '=', 't.id')
        .whereRef('i.attempt', '=', 't.lease_token')
        .select((call) => call.fn.max('i.seq').as('seq'))
        .as('lastCall'),
    ])
    .select(['t.batch_key as batchKey', 't.key as task', 't.lease_token as attempt'])
    .select(['a.started_at as since', 'w.heartbeat_at as heartbeatAt'])
    .orderBy('t.slot')
    .orderBy('t.key');
  return rowsOf(db, query);
}

/** Pending tasks of a batch that wait for something, by what they wait for. `until` is the next that time alone sets free. */
export function waitingTasks(db: Queryable, key: string): Promise<WaitingTasks[]> {
  const query = schema
    .selectFrom('task')
    .where('batch_key', '=', key)
    .where('state', '=', 'pending')
    .where('waiting_for', 'is not', null)
    .groupBy('waiting_for')
    .select(({ ref, fn }) => [
      ref('waiting_for').$notNull().as('waitingFor'),
      fn.countAll<number>().as('tasks'),
      fn
        .min('not_before')
        .filterWhere(fn<boolean>('isfinite', ['not_before']), 'is', true)
        .as('until'),
    ])
    .orderBy('waiting_for');
  return rowsOf(db, query);
}

/** The first 20 failed tasks of a batch. */
export function failedTasks(db: Queryable, key: string): Promise<FailedTask[]> {
  const query = schema
    .selectFrom('task')
    .where('batch_key', '=', key)
    .where('state', '=', 'failed')
    .select(['key', sql<string>`coalesce(failure ->> 'message', failure::text)`.as('message')])
    .orderBy('position')
    .limit(FAILED_SHOWN);
  return rowsOf(db, query);
}

/** What the provider has refused of a batch in the last ten minutes. */
export function recentRefusals(db: Queryable, key: string): Promise<RecentRefusals[]> {
  const query = schema
    .selectFrom('call_outcome')
    .where('batch_key', '=', key)
    .where('kind', '=', 'refused')
    .where('received_at', '>', sql<Date>`madrugada.now() - interval '10 minutes'`)
    .groupBy(['status', 'error'])
    .select(({ fn }) => ['status', 'error', fn.countAll<number>().as('dispatches')])
    .orderBy('dispatches', 'desc')
    .orderBy('status')
    .orderBy('error');
  return rowsOf(db, query);
}

/** The reason of the stop of everything that is in force, or undefined. */
export async function stopInForce(db: Queryable): Promise<string | undefined> {
  const [stop] = await rowsOf(db, schema.selectFrom('stop_switch').where('lifted_at', 'is', null).select('reason'));
  return stop?.reason;
}

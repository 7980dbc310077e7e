import { type ClientBase, DatabaseError } from 'pg';
import { asPerson } from '../batch/as-person.ts';
import { findBatch } from '../batch/find-batch.ts';
import type { Queryable } from '../batch/queryable.ts';
import { parseTaskKey } from '../batch/task-key.ts';
import { MadrugadaError } from '../errors.ts';

/** A dispatch of which it is not known whether it was charged. */
export type Doubt = {
  readonly batchKey: string;
  readonly task: string;
  readonly seq: number;
  readonly dispatch: number;
  readonly model: string | null;
  readonly sentAt: Date;
  /** Until when a late answer may come. */
  readonly waitingUntil: Date;
  readonly senderAtWork: boolean;
  /** US dollars as an exact decimal; null for a model without a price. */
  readonly worstCaseUsd: string | null;
  /** Null while the batch has no bill. */
  readonly onBill: boolean | null;
};

/** Who settles, and why. */
export type SettledBy = { readonly by: string; readonly reason: string };

/** What a person says became of a dispatch. `payAgain`: charged, but its answer is lost, and it may be paid again even where the policy is to hold. */
export type Settling =
  | { readonly verdict: 'charged'; readonly usd: string; readonly payAgain: boolean }
  | { readonly verdict: 'not_charged' };

/** What a bill has settled of a batch, in dispatches. */
export type SettledByBill = {
  readonly batchKey: string;
  readonly billId: number;
  readonly charged: number;
  readonly notCharged: number;
  /** Still in doubt: not on the bill, or their senders may still be at work. */
  readonly left: number;
};

const RAISED = 'P0001';

/** The dispatches in doubt of one batch, or of all. */
export async function listDoubts(db: Queryable, batchKey?: string): Promise<Doubt[]> {
  const { rows } = await db.query<Doubt>(
    `SELECT d.batch_key AS "batchKey", d.key AS task, d.seq, d.dispatch, d.model, d.sent_at AS "sentAt", d.waiting_until AS "waitingUntil",
            d.sender_at_work AS "senderAtWork", trim_scale(d.worst_case_usd) AS "worstCaseUsd",
            CASE WHEN EXISTS (SELECT FROM madrugada.bill b WHERE b.batch_key = d.batch_key) THEN d.billed END AS "onBill"
       FROM madrugada.audit_in_doubt d
      WHERE $1::text IS NULL OR d.batch_key = $1
      ORDER BY d.batch_key, d.key, d.seq, d.dispatch`,
    [batchKey ?? null],
  );
  return rows;
}

/**
 * Settles one dispatch in doubt; without `dispatch` the only one of its call. `client` is a connection of the role operator. Throws a
 * MadrugadaError when there is none, when several could be meant, when its sender may still be at work, or when it is not in doubt.
 */
export async function settleDoubt(
  client: ClientBase,
  call: { readonly task: string; readonly seq: number; readonly dispatch?: number | undefined },
  settling: Settling,
  said: SettledBy,
): Promise<number> {
  parseTaskKey(call.task);
  return orRefused(() =>
    asPerson(client, said, async () => {
      const { rows } = await client.query<{ id: number; batchKey: string }>(
        'SELECT id, batch_key AS "batchKey" FROM madrugada.task WHERE key = $1',
        [call.task],
      );
      const [task] = rows;
      if (!task) throw new MadrugadaError(`no task ${call.task}; madrugada doubt list names the doubts of every batch`);
      const dispatch = call.dispatch ?? (await onlyDoubt(client, task, call));
      const [usd, payAgain] = settling.verdict === 'charged' ? [settling.usd, settling.payAgain] : [null, false];
      await client.query('SELECT madrugada.settle_doubt($1, $2, $3, $4, $5, $6, $7, NULL)', [
        ...[task.batchKey, task.id, call.seq, dispatch],
        ...[settling.verdict, usd, payAgain],
      ]);
      return dispatch;
    }),
  );
}

async function onlyDoubt(
  client: ClientBase,
  task: { id: number; batchKey: string },
  call: { readonly task: string; readonly seq: number },
): Promise<number> {
  const { rows } = await client.query<{ dispatch: number }>(
    'SELECT dispatch FROM madrugada.audit_in_doubt WHERE batch_key = $1 AND task_id = $2 AND seq = $3 ORDER BY dispatch',
    [task.batchKey, task.id, call.seq],
  );
  const [only, ...others] = rows;
  if (!only)
    throw new MadrugadaError(
      `call ${call.seq} of task ${call.task} has no dispatch in doubt; madrugada doubt list ${task.batchKey} names those that are`,
    );
  if (others.length > 0)
    throw new MadrugadaError(
      `call ${call.seq} of task ${call.task} has ${rows.length} dispatches in doubt; say which: --dispatch ${rows.map(({ dispatch }) => dispatch).join(', --dispatch ')}`,
    );
  return only.dispatch;
}

/**
 * Settles the doubts of a batch by the bills imported for it: those on a bill as charged what it says. With `complete` the person vouches
 * that the bill has every charge of the batch, and the others are settled as not charged. Dispatches whose senders may still be at work stay
 * in doubt. `client` is a connection of the role operator. Throws a MadrugadaError when no bill is imported, or when a doubt resolved itself
 * meanwhile; then nothing is changed.
 */
export async function settleFromBill(
  client: ClientBase,
  name: string,
  complete: boolean,
  said: SettledBy,
): Promise<SettledByBill> {
  const { key } = await findBatch(client, name);
  const { rows: bills } = await client.query<{ id: number | null }>(
    'SELECT max(id) AS id FROM madrugada.bill WHERE batch_key = $1',
    [key],
  );
  const billId = bills[0]?.id ?? null;
  if (billId === null)
    throw new MadrugadaError(
      `no bill is imported for batch ${key}: get the provider's bill, then madrugada bill import ${key} FILE`,
    );
  return orRefused(() =>
    asPerson(client, said, async () => {
      const charged = await settleCharged(client, key);
      const notCharged = complete ? await settleAbsent(client, key, billId) : 0;
      const { length: left } = await listDoubts(client, key);
      return { batchKey: key, billId, charged, notCharged, left };
    }),
  );
}

/** Lines of one dispatch are summed, down to nothing where the provider gave the charge back. */
async function settleCharged(client: ClientBase, key: string): Promise<number> {
  const { rowCount } = await client.query(
    `SELECT madrugada.settle_doubt(d.batch_key, d.task_id, d.seq, d.dispatch, 'charged', greatest(sum(c.cost_usd), 0), false, max(c.bill_id))
       FROM madrugada.audit_in_doubt d
       JOIN madrugada.audit_charges c ON c.batch_key = d.batch_key AND c.task_id = d.task_id AND c.seq = d.seq AND c.dispatch = d.dispatch
      WHERE d.batch_key = $1 AND NOT d.sender_at_work
      GROUP BY d.batch_key, d.task_id, d.seq, d.dispatch
      ORDER BY d.task_id, d.seq, d.dispatch`,
    [key],
  );
  return rowCount ?? 0;
}

async function settleAbsent(client: ClientBase, key: string, billId: number): Promise<number> {
  const { rowCount } = await client.query(
    `SELECT madrugada.settle_doubt(d.batch_key, d.task_id, d.seq, d.dispatch, 'not_charged', NULL, false, $2)
       FROM madrugada.audit_in_doubt d
      WHERE d.batch_key = $1 AND NOT d.sender_at_work AND NOT d.billed
      ORDER BY d.task_id, d.seq, d.dispatch`,
    [key, billId],
  );
  return rowCount ?? 0;
}

async function orRefused<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DatabaseError && error.code === RAISED)
      throw new MadrugadaError(`${error.message}; nothing was changed`, 2, { cause: error });
    throw error;
  }
}

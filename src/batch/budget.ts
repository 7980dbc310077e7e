import { type ClientBase, DatabaseError } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { asPerson } from './as-person.ts';
import { findBatch } from './find-batch.ts';
import type { Queryable } from './queryable.ts';

/** What a batch may spend, in dollars as exact decimals; null: no limit. */
export type BatchLimits = {
  readonly budgetUsd: string | null;
  /** Of each task, all its attempts together. */
  readonly taskBudgetUsd: string | null;
  /** In any ten minutes; more stops the batch. */
  readonly velocityUsd: string | null;
};

/** The money of a batch as the journal and its tasks have it. `drawnUsd` is settled, held, and set aside for running tasks. */
export type BatchMoney = BatchLimits & {
  readonly settledUsd: string;
  /** By dispatches in doubt and under way. */
  readonly heldUsd: string;
  readonly drawnUsd: string;
  readonly lastTenMinutesUsd: string;
  /** Tasks that wait for money. */
  readonly waitingTasks: number;
};

/** The money of a calendar month over all batches. */
export type MonthMoney = { readonly month: string; readonly capUsd: string | null; readonly drawnUsd: string };

const RAISED = 'P0001';

/** Reads a batch's limits and what became of them. */
export async function batchMoney(db: Queryable, batchKey: string): Promise<BatchMoney> {
  const { rows } = await db.query<BatchMoney>(
    `SELECT b.budget_usd AS "budgetUsd", b.task_budget_usd AS "taskBudgetUsd", b.velocity_usd AS "velocityUsd",
            trim_scale(a.spent_usd) AS "settledUsd", trim_scale(a.held_usd) AS "heldUsd", trim_scale(a.drawn_usd) AS "drawnUsd",
            trim_scale(madrugada.spent_lately(b.batch_key)) AS "lastTenMinutesUsd",
            (SELECT count(*)::integer FROM madrugada.task t
              WHERE t.batch_key = b.batch_key AND t.state = 'pending' AND t.needs_usd IS NOT NULL AND t.waiting_for = 'budget') AS "waitingTasks"
       FROM madrugada.batch b JOIN madrugada.audit_budget a ON a.batch_key = b.batch_key
      WHERE b.batch_key = $1`,
    [batchKey],
  );
  const [money] = rows;
  if (money === undefined) throw new Error(`no money of batch ${batchKey}`);
  return money;
}

/**
 * Changes limits of a batch; those not named stay. Tasks that wait for money wake; a batch that was stopped stays stopped. `client` is a
 * connection of the role operator. Throws a MadrugadaError when the batch takes no more work.
 */
export async function setBatchLimits(
  client: ClientBase,
  name: string,
  changes: Partial<BatchLimits>,
  said: { by: string; reason: string },
): Promise<{ batchKey: string; limits: BatchLimits; state: string }> {
  const { key, state } = await findBatch(client, name);
  const { budgetUsd, taskBudgetUsd, velocityUsd } = { ...(await batchMoney(client, key)), ...changes };
  await byPerson(client, said, 'SELECT madrugada.set_batch_limits($1, $2, $3, $4)', [
    key,
    budgetUsd,
    taskBudgetUsd,
    velocityUsd,
  ]);
  return { batchKey: key, limits: { budgetUsd, taskBudgetUsd, velocityUsd }, state };
}

/** The months that have a limit or had one, the latest first. */
export async function monthMoney(db: Queryable): Promise<MonthMoney[]> {
  const { rows } = await db.query<MonthMoney>(
    `SELECT to_char(month, 'YYYY-MM') AS month, cap_usd AS "capUsd", trim_scale(drawn_usd) AS "drawnUsd" FROM madrugada.month_spending ORDER BY month DESC LIMIT 24`,
  );
  return rows;
}

/** Sets what all batches together may spend in a month (`2026-12`) and, until it is changed, in those after it; null: no limit. */
export async function setMonthLimit(
  client: ClientBase,
  month: string,
  capUsd: string | null,
  said: { by: string; reason: string },
): Promise<void> {
  await byPerson(client, said, 'SELECT madrugada.set_month_limit($1, $2)', [`${month}-01`, capUsd]);
}

async function byPerson(
  client: ClientBase,
  said: { by: string; reason: string },
  sql: string,
  values: unknown[],
): Promise<void> {
  try {
    await asPerson(client, said, () => client.query(sql, values));
  } catch (error) {
    if (error instanceof DatabaseError && error.code === RAISED)
      throw new MadrugadaError(`${error.message}; nothing was changed`, 2, { cause: error });
    throw error;
  }
}

import type { Queryable } from './queryable.ts';

/** How many tasks of a batch are in each state. */
export type TaskCounts = {
  readonly pending: number;
  readonly running: number;
  readonly completed: number;
  readonly failed: number;
};

/** What a batch has done and cost so far, by the journal. Dollars are exact decimals. */
export type BatchFigures = {
  readonly tasks: TaskCounts;
  /** Calls that have their answer. */
  readonly calls: number;
  /** Dispatches that were charged. */
  readonly charged: number;
  readonly refused: number;
  readonly spentUsd: string;
  /** Charged dispatches whose model has no price: not in `spentUsd`. */
  readonly unpriced: number;
  readonly inDoubt: number;
};

type CountRow = { readonly batch_key: string; readonly state: keyof TaskCounts; readonly tasks: number };

/** The tasks by state of every batch, or of the given ones, by batch key. */
export async function countTasks(db: Queryable, keys?: readonly string[]): Promise<Map<string, TaskCounts>> {
  const { rows } = await db.query<CountRow>(
    `SELECT batch_key, state, count(*)::integer AS tasks FROM madrugada.task
      WHERE $1::text[] IS NULL OR batch_key = ANY ($1) GROUP BY batch_key, state`,
    [keys ?? null],
  );
  const counts = new Map<string, TaskCounts>();
  for (const { batch_key: key, state, tasks } of rows) {
    counts.set(key, { ...(counts.get(key) ?? NO_TASKS), [state]: tasks });
  }
  return counts;
}

/** What a batch has done and cost so far. */
export async function batchFigures(db: Queryable, key: string): Promise<BatchFigures> {
  const [counts, { rows }] = await Promise.all([
    countTasks(db, [key]),
    db.query<Omit<BatchFigures, 'tasks'>>(
      `SELECT calls::integer, charged::integer, refused::integer, journal_usd AS "spentUsd", unpriced::integer, in_doubt::integer AS "inDoubt"
         FROM madrugada.audit_batch_totals WHERE batch_key = $1`,
      [key],
    ),
  ]);
  const [totals] = rows;
  if (!totals) throw new Error(`no totals for batch ${key}`);
  return { tasks: counts.get(key) ?? NO_TASKS, ...totals };
}

const NO_TASKS: TaskCounts = { pending: 0, running: 0, completed: 0, failed: 0 };

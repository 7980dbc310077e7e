import type { Queryable } from './queryable.ts';

/** The answer of one completed task. `resultJson` is JSON text: parsing it would round numbers. */
export type Answer = {
  readonly position: number;
  readonly key: string;
  readonly item: string;
  readonly spentUsd: string;
  readonly completedAt: Date;
  readonly resultJson: string;
};

const PAGE = 500;

/** The answers of a batch in the order of its list, read in pages: a batch need not fit in memory. */
export async function* readAnswers(db: Queryable, batchKey: string): AsyncGenerator<Answer> {
  let after = 0;
  for (;;) {
    const { rows } = await db.query<Answer>(
      `SELECT position, key, item, spent_usd AS "spentUsd", completed_at AS "completedAt", result::text AS "resultJson"
         FROM madrugada.task WHERE batch_key = $1 AND position > $2 AND state = 'completed' ORDER BY position LIMIT $3`,
      [batchKey, after, PAGE],
    );
    yield* rows;
    if (rows.length < PAGE) return;
    after = rows.at(-1)?.position ?? after;
  }
}

/** The fields of a batch's answers, in alphabetical order; empty when no answer is an object. */
export async function answerFields(db: Queryable, batchKey: string): Promise<string[]> {
  const { rows } = await db.query<{ field: string }>(
    `SELECT DISTINCT jsonb_object_keys(result) AS field FROM madrugada.task
      WHERE batch_key = $1 AND state = 'completed' AND jsonb_typeof(result) = 'object' ORDER BY field`,
    [batchKey],
  );
  return rows.map(({ field }) => field);
}

/** True when some answer is no object: it then stands in a column of its own. */
export async function hasPlainAnswers(db: Queryable, batchKey: string): Promise<boolean> {
  const { rows } = await db.query<{ found: boolean }>(
    `SELECT EXISTS (SELECT FROM madrugada.task
       WHERE batch_key = $1 AND state = 'completed' AND jsonb_typeof(result) <> 'object') AS found`,
    [batchKey],
  );
  return rows[0]?.found === true;
}

import { MadrugadaError } from '../errors.ts';
import type { BatchState, DoubtPolicy } from '../postgres/schema-types.ts';
import type { Queryable } from './queryable.ts';

export type Batch = {
  readonly id: string;
  readonly version: string;
  /** `id:version`. */
  readonly key: string;
  readonly agent: string;
  readonly agentOptions: Readonly<Record<string, string>>;
  readonly state: BatchState;
  readonly stopReason: string | null;
  readonly tasks: number;
  readonly tasksSha256: string;
  /** US dollars as an exact decimal. */
  readonly budgetUsd: string | null;
  readonly maxAttempts: number;
  readonly leaseSeconds: number;
  readonly doubtPolicy: DoubtPolicy;
  /** Attempts that fail in a row before it stops by itself. */
  readonly stopAfterFailures: number;
  /** The model that a call asks after `fallBackAfter` refusals; both null: none. */
  readonly fallBackModel: string | null;
  readonly fallBackAfter: number | null;
  /** A person lets its actions be proposed without a passing rehearsal. */
  readonly unrehearsed: boolean;
  readonly createdAt: Date;
  readonly closedAt: Date | null;
};

const COLUMNS = `
  id, version, batch_key AS key, agent, agent_options AS "agentOptions", state, stop_reason AS "stopReason", task_count AS tasks,
  tasks_sha256 AS "tasksSha256", budget_usd AS "budgetUsd", max_attempts AS "maxAttempts", lease_seconds AS "leaseSeconds",
  doubt_policy AS "doubtPolicy", stop_after_failures AS "stopAfterFailures", fall_back_model AS "fallBackModel", fall_back_after AS "fallBackAfter",
  unrehearsed, created_at AS "createdAt", closed_at AS "closedAt"`;

/** Finds a batch by `ID` or `ID:VERSION`. Throws a MadrugadaError when there is none, or when `ID` alone has several versions. */
export async function findBatch(db: Queryable, name: string): Promise<Batch> {
  const { rows } = await db.query<Batch>(
    `SELECT ${COLUMNS} FROM madrugada.batch WHERE $1 IN (batch_key, id) ORDER BY created_at, version`,
    [name],
  );
  const [batch, ...others] = rows;
  if (!batch) throw new MadrugadaError(await describeMissing(db, name));
  if (others.length > 0) {
    const keys = rows.map(({ key }) => key).join(', ');
    throw new MadrugadaError(`batch ${name} has ${rows.length} versions; say which: ${keys}`);
  }
  return batch;
}

/** All batches, the latest last. */
export async function allBatches(db: Queryable): Promise<Batch[]> {
  const { rows } = await db.query<Batch>(`SELECT ${COLUMNS} FROM madrugada.batch ORDER BY created_at, batch_key`);
  return rows;
}

async function describeMissing(db: Queryable, name: string): Promise<string> {
  const { rows } = await db.query<{ key: string }>(
    `SELECT batch_key AS key FROM madrugada.batch ORDER BY created_at DESC LIMIT 10`,
  );
  if (rows.length === 0) return `no batch ${name}: none is loaded yet; see madrugada batch load --help`;
  return `no batch ${name}; the latest are ${rows.map(({ key }) => key).join(', ')}`;
}

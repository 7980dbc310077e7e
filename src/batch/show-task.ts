import { MadrugadaError } from '../errors.ts';
import type { Queryable } from './queryable.ts';
import { parseTaskKey } from './task-key.ts';

export type ShownTask = {
  readonly key: string;
  readonly state: string;
  readonly position: number;
  readonly input: unknown;
  readonly result: unknown;
  readonly failure: { readonly kind?: string; readonly message?: string; readonly seq?: number | null } | null;
  /** Attempts counted against the limit; those listed may be more. */
  readonly attemptsCounted: number;
  readonly slot: string | null;
  readonly leaseExpiresAt: Date | null;
  readonly notBefore: Date | null;
  readonly waitingFor: string | null;
  readonly spentUsd: string;
  readonly completedAt: Date | null;
  readonly attempts: readonly ShownAttempt[];
  readonly calls: readonly ShownCall[];
};

export type ShownAttempt = {
  readonly number: number;
  readonly slot: string;
  readonly startedAt: Date;
  readonly endedAt: Date | null;
  /** Null while it runs. */
  readonly ending: string | null;
  /** Calls answered from the journal; null while it runs, and when it was lost. */
  readonly replayed: number | null;
  /** Dispatches it sent. */
  readonly sent: number;
  readonly error: string | null;
};

export type ShownCall = {
  readonly seq: number;
  readonly dispatch: number;
  readonly scope: string;
  readonly attempt: number;
  readonly model: string | null;
  /** The best outcome, or "in doubt". */
  readonly kind: string;
  readonly answers: boolean;
  readonly status: number | null;
  readonly error: string | null;
  readonly costUsd: string | null;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly sentAt: Date;
  readonly receivedAt: Date | null;
  readonly providerRequestId: string | null;
  /** Only when asked for. */
  readonly request?: string;
  readonly response?: string | null;
};

type TaskRow = Omit<ShownTask, 'attempts' | 'calls'> & { readonly id: number; readonly batch_key: string };

/** A task with its attempts and dispatches, with their bodies if asked for. Throws a MadrugadaError when there is no such task. */
export async function showTask(db: Queryable, key: string, withBodies: boolean): Promise<ShownTask> {
  parseTaskKey(key);
  const { rows } = await db.query<TaskRow>(
    `SELECT id, batch_key, key, state, position, input, result, failure, attempts AS "attemptsCounted", slot,
            lease_expires_at AS "leaseExpiresAt", CASE WHEN isfinite(not_before) THEN not_before END AS "notBefore",
            waiting_for AS "waitingFor", madrugada.journal_cost(batch_key, id) AS "spentUsd", completed_at AS "completedAt"
       FROM madrugada.task WHERE key = $1`,
    [key],
  );
  const [row] = rows;
  if (!row) throw new MadrugadaError(`no task ${key}; check batch, item and version with madrugada batch list`);
  const { id, batch_key: batchKey, ...task } = row;
  const [attempts, calls] = await Promise.all([
    readAttempts(db, batchKey, id),
    readCalls(db, batchKey, id, withBodies),
  ]);
  return { ...task, attempts, calls };
}

async function readAttempts(db: Queryable, batchKey: string, task: number): Promise<ShownAttempt[]> {
  const { rows } = await db.query<ShownAttempt>(
    `SELECT a.number, a.slot, a.started_at AS "startedAt", a.ended_at AS "endedAt", a.ending, a.replayed, a.error,
            (SELECT count(*)::integer FROM madrugada.call_intent i
              WHERE i.batch_key = $1 AND i.task_id = a.task_id AND i.attempt = a.number) AS sent
       FROM madrugada.attempt a WHERE a.task_id = $2 ORDER BY a.number`,
    [batchKey, task],
  );
  return rows;
}

async function readCalls(db: Queryable, batchKey: string, task: number, withBodies: boolean): Promise<ShownCall[]> {
  const { rows } = await db.query<ShownCall>(
    `SELECT seq, dispatch, scope, attempt, model, CASE WHEN settled THEN kind::text ELSE 'in doubt' END AS kind, answers, status, error,
            cost_usd AS "costUsd", input_tokens AS "inputTokens", output_tokens AS "outputTokens", sent_at AS "sentAt",
            received_at AS "receivedAt", provider_request_id AS "providerRequestId"${withBodies ? ', request, response' : ''}
       FROM madrugada.call WHERE batch_key = $1 AND task_id = $2 ORDER BY seq, dispatch`,
    [batchKey, task],
  );
  return rows;
}

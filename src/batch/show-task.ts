import { MadrugadaError } from '../errors.ts';
import type { Queryable } from './queryable.ts';
import { parseTaskKey } from './task-key.ts';

export type ShownTask = {
  readonly key: string;
  /** The agent of its batch. */
  readonly agent: string;
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
  readonly steps: readonly ShownStep[];
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
  /** The model that the code asked: another one where the call fell back. */
  readonly askedModel: string | null;
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
  /** A person has ordered it to be paid again: it takes no part in the task any more. */
  readonly setAside: boolean;
  /** The bodies are there only when asked for. */
  readonly request?: string;
  readonly response?: string | null;
};

/** A `task.step` or a `task.checkpoint`. */
export type ShownStep = {
  readonly scope: string;
  readonly kind: 'step' | 'checkpoint';
  readonly name: string;
  readonly attempt: number;
  /** Of a checkpoint. */
  readonly state: string | null;
};

type TaskRow = Omit<ShownTask, 'attempts' | 'calls' | 'steps'> & { readonly id: number; readonly batch_key: string };

/**
 * A task with its attempts, dispatches and steps. `withBodies` says, by the agent of its batch, whether the dispatches come with their bodies.
 * Throws a MadrugadaError when there is no such task.
 */
export async function showTask(db: Queryable, key: string, withBodies: (agent: string) => boolean): Promise<ShownTask> {
  parseTaskKey(key);
  const { rows } = await db.query<TaskRow>(
    `SELECT t.id, t.batch_key, t.key, b.agent, t.state, t.position, t.input, t.result, t.failure, t.attempts AS "attemptsCounted", t.slot,
            t.lease_expires_at AS "leaseExpiresAt", CASE WHEN isfinite(t.not_before) THEN t.not_before END AS "notBefore",
            t.waiting_for AS "waitingFor", madrugada.journal_cost(t.batch_key, t.id) AS "spentUsd", t.completed_at AS "completedAt"
       FROM madrugada.task t JOIN madrugada.batch b USING (batch_key) WHERE t.key = $1`,
    [key],
  );
  const [row] = rows;
  if (!row) throw new MadrugadaError(`no task ${key}; check batch, item and version with madrugada batch list`);
  const { id, batch_key: batchKey, ...task } = row;
  const attempts = await readAttempts(db, batchKey, id);
  const calls = await readCalls(db, batchKey, id, withBodies(task.agent));
  const steps = await readSteps(db, batchKey, id);
  return { ...task, attempts, calls, steps };
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
    `SELECT seq, dispatch, scope, attempt, model, asked_model AS "askedModel", CASE WHEN settled THEN kind::text ELSE 'in doubt' END AS kind, answers, status, error,
            cost_usd AS "costUsd", input_tokens AS "inputTokens", output_tokens AS "outputTokens", sent_at AS "sentAt",
            received_at AS "receivedAt", provider_request_id AS "providerRequestId",
            EXISTS (SELECT FROM madrugada.pay_again p WHERE p.task_id = $2 AND seq BETWEEN p.from_seq AND p.to_seq) AS "setAside"${withBodies ? ', request, response' : ''}
       FROM madrugada.call WHERE batch_key = $1 AND task_id = $2 ORDER BY seq, dispatch`,
    [batchKey, task],
  );
  return rows;
}

async function readSteps(db: Queryable, batchKey: string, task: number): Promise<ShownStep[]> {
  const { rows } = await db.query<Omit<ShownStep, 'state'> & { value: string | null }>(
    `SELECT s.scope, s.kind, s.name, s.attempt, CASE WHEN s.kind = 'checkpoint' THEN madrugada.body_text(s.value) END AS value
       FROM madrugada.step_record s
      WHERE s.batch_key = $1 AND s.task_id = $2 AND s.kind IN ('step', 'checkpoint')
        AND NOT EXISTS (SELECT FROM madrugada.pay_again p
                         WHERE p.task_id = s.task_id AND s.completed_no > p.from_no AND s.completed_no <= p.to_no)
      ORDER BY s.completed_no`,
    [batchKey, task],
  );
  return rows.map(({ value, ...step }) => ({ ...step, state: value === null ? null : JSON.parse(value) }));
}

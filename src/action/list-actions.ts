import type { Queryable } from '../batch/queryable.ts';
import type { ActionState } from './action-row.ts';
import type { Approval } from './define-action.ts';

/** An action in a list. */
export type ListedAction = {
  readonly id: number;
  readonly batchKey: string;
  /** Key of the task that proposed it. */
  readonly task: string;
  readonly name: string;
  readonly intent: string;
  readonly state: ActionState;
  readonly why: string | null;
  readonly approval: Approval;
  readonly proposedAt: Date;
  readonly expiresAt: Date;
  /** Until it expires, by the database's clock. */
  readonly secondsLeft: number;
  /** Who has approved it so far. */
  readonly approvedBy: readonly string[];
};

/** Which actions to list; those of all batches in all states unless told. */
export type ActionFilter = {
  readonly batchKey?: string | undefined;
  readonly state?: ActionState | undefined;
  /** Those that this task has proposed, or has found proposed by another version of itself. */
  readonly taskKey?: string | undefined;
};

/** Reads a batch's by index action_batch, a task's by action_task and action_use_current; all of them by a scan. */
const LIST = `
  SELECT a.id, a.batch_key AS "batchKey", ${taskKeyOf('a')} AS task, a.name, a.intent, a.state, a.why, a.approval,
         a.proposed_at AS "proposedAt", a.expires_at AS "expiresAt",
         extract(epoch FROM a.expires_at - madrugada.now())::float8 AS "secondsLeft",
         ARRAY(SELECT d.by_name FROM madrugada.action_decision d
                WHERE d.action_id = a.id AND d.verdict = 'approve' ORDER BY d.decided_at) AS "approvedBy"
    FROM madrugada.action a
   WHERE ($1::text IS NULL OR a.batch_key = $1) AND ($2::madrugada.action_state IS NULL OR a.state = $2)
     AND ($3::text IS NULL OR a.id IN (
           SELECT o.id FROM madrugada.action o JOIN madrugada.task t ON t.id = o.task_id WHERE t.key = $3
            UNION ALL
           SELECT u.action_id FROM madrugada.action_use u JOIN madrugada.task t ON t.id = u.task_id WHERE t.key = $3 AND u.retired_at IS NULL))
   ORDER BY a.state NOT IN ('unknown', 'needs_person'), a.state <> 'proposed', a.id`;

/** Actions, first those that need a person, then those that wait for approval. */
export async function listActions(db: Queryable, { batchKey, state, taskKey }: ActionFilter): Promise<ListedAction[]> {
  const { rows } = await db.query<ListedAction>(LIST, [batchKey ?? null, state ?? null, taskKey ?? null]);
  return rows;
}

/** A person must decide on it, or look what became of it. */
export function waitsForPerson({ state }: Pick<ListedAction, 'state'>): boolean {
  return state === 'proposed' || state === 'unknown' || state === 'needs_person';
}

/** What has expired counts as expired from here on, whether or not a worker runs. `db`: a connection of the role approver, operator or worker. */
export async function tendActions(db: Queryable): Promise<void> {
  await db.query('SELECT madrugada.tend_actions()');
}

/** SQL for the key of an action's task: the task itself may be archived. */
export function taskKeyOf(action: string): string {
  return `${action}.batch_id || ':' || ${action}.item || substr(${action}.batch_key, length(${action}.batch_id) + 1)`;
}

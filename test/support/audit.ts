import type { TestDatabase } from './database.ts';

/** One audit row of a task. */
export interface TaskEvent {
  item: string;
  event: string;
  slot: string | null;
  workerId: number | null;
  token: number | null;
  reason: string | null;
}

/** What the audit trail says about the tasks of a batch, in order. */
export async function taskEvents({ pool }: TestDatabase, batchKey: string): Promise<TaskEvent[]> {
  const { rows } = await pool.query<TaskEvent>(
    `SELECT t.item, e.event, e.slot, e.worker_id AS "workerId", e.lease_token AS token, e.reason
       FROM madrugada.audit_event e JOIN madrugada.task t ON t.id = e.task_id WHERE e.batch_key = $1 ORDER BY e.id`,
    [batchKey],
  );
  return rows;
}

/** The names of those events, for a batch of one task. */
export async function passages(db: TestDatabase, batchKey: string): Promise<string[]> {
  return (await taskEvents(db, batchKey)).map(({ event }) => event);
}

/** One attempt of a batch's tasks. */
export interface AttemptRow {
  item: string;
  number: number;
  slot: string;
  workerId: number;
  ending: string | null;
  error: string | null;
  replayed: number | null;
}

/** The attempts of a batch, task by task. */
export async function attemptsOf({ pool }: TestDatabase, batchKey: string): Promise<AttemptRow[]> {
  const { rows } = await pool.query<AttemptRow>(
    `SELECT t.item, a.number, a.slot, a.worker_id AS "workerId", a.ending, a.error, a.replayed
       FROM madrugada.attempt a JOIN madrugada.task t ON t.id = a.task_id
      WHERE t.batch_key = $1 ORDER BY t.position, a.number`,
    [batchKey],
  );
  return rows;
}

/** Attempts in short, such as `batch-1/1 lost`, `batch-1/2 completed`; `-` for one that runs. */
export async function endingsOf(db: TestDatabase, batchKey: string): Promise<string[]> {
  return (await attemptsOf(db, batchKey)).map(({ slot, ending }) => `${slot} ${ending ?? '-'}`);
}

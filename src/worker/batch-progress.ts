import type { Pool } from 'pg';

/** How far a batch is. */
export interface BatchProgress {
  state: 'open' | 'stopped' | 'closed' | 'archived';
  stopReason: string | null;
  everythingStopped: boolean;
  total: number;
  completed: number;
  failed: number;
  running: number;
  /** Waiting for time to pass, or for a slot. */
  pending: number;
  /** Waiting for something that time alone will not bring: a bill, a person. */
  waiting: number;
  /** Of those, the ones that wait for money: they are woken when there is some, or their batch is stopped. */
  waitingForBudget: number;
}

/** Counts a batch's tasks by state: one index range of the batch. */
export async function batchProgress(pool: Pool, batchKey: string): Promise<BatchProgress> {
  const { rows } = await pool.query<BatchProgress>(
    `SELECT b.state, b.stop_reason AS "stopReason", madrugada.is_stopped() AS "everythingStopped", b.task_count AS total,
            count(*) FILTER (WHERE t.state = 'completed') AS completed, count(*) FILTER (WHERE t.state = 'failed') AS failed,
            count(*) FILTER (WHERE t.state = 'running') AS running,
            count(*) FILTER (WHERE t.state = 'pending' AND t.not_before < 'infinity') AS pending,
            count(*) FILTER (WHERE t.state = 'pending' AND t.not_before = 'infinity') AS waiting,
            count(*) FILTER (WHERE t.state = 'pending' AND t.waiting_for = 'budget') AS "waitingForBudget"
       FROM madrugada.batch b JOIN madrugada.task t ON t.batch_key = b.batch_key
      WHERE b.batch_key = $1 GROUP BY b.id, b.version`,
    [batchKey],
  );
  const [row] = rows;
  if (row === undefined) throw new Error(`batch ${batchKey} is not in the database`);
  return row;
}

/** True when nothing is left that time alone can advance (rule R18). */
export function isAtItsEnd(progress: BatchProgress): boolean {
  if (progress.running > 0) return false;
  if (progress.state !== 'open' || progress.everythingStopped) return true;
  return progress.pending === 0 && progress.waitingForBudget === 0;
}

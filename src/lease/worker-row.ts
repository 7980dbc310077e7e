import type { ClientBase, Pool } from 'pg';
import type { ProcessIdentity } from './process-identity.ts';

/** A worker that has not ended as far as the database knows. */
export interface LivingWorker extends ProcessIdentity {
  id: number;
  /** True when its heartbeat is older than ten seconds. */
  isSilent: boolean;
}

export async function registerWorker(client: ClientBase, identity: ProcessIdentity): Promise<number> {
  const { rows } = await client.query<{ id: number }>('SELECT madrugada.register_worker($1, $2, $3, $4) AS id', [
    identity.host,
    identity.bootId,
    identity.pid,
    identity.pidStartedAt,
  ]);
  const id = rows[0]?.id;
  if (id === undefined) throw new Error('register_worker returned no id');
  return id;
}

/** The worker says goodbye: it has nothing in flight. A task it still holds goes back. */
export async function leaveWorker(client: ClientBase | Pool, workerId: number, how: string): Promise<void> {
  await client.query('SELECT madrugada.leave_worker($1, $2)', [workerId, how]);
}

/** Notes a proven death and releases what the worker held. False: one of its statements is still at work in the database; ask again. */
export async function endWorker(pool: Pool, workerId: number, how: string): Promise<boolean> {
  const { rows } = await pool.query<{ ended: boolean }>('SELECT madrugada.end_worker($1, $2) AS ended', [
    workerId,
    how,
  ]);
  return rows[0]?.ended ?? false;
}

/** The workers that have not ended: a handful, by a partial index. */
export async function livingWorkers(pool: Pool): Promise<LivingWorker[]> {
  const { rows } = await pool.query(
    `SELECT id, host, boot_id AS "bootId", pid, pid_started_at AS "pidStartedAt", heartbeat_at < madrugada.now() - interval '10 seconds' AS "isSilent"
       FROM madrugada.worker WHERE ended_at IS NULL ORDER BY id`,
  );
  return rows;
}

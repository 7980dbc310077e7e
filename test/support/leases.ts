import type { Lease } from '../../src/journal/lease.ts';
import { claimTask } from '../../src/lease/claim.ts';
import { Completions, endAttempt, type Holder } from '../../src/lease/finish.ts';
import { type ProcessIdentity, thisProcess } from '../../src/lease/process-identity.ts';
import type { TestDatabase } from './database.ts';

/** What the functions of src/lease take for a lease of src/journal. */
export function holderOf(lease: { taskId: number; workerId: number; token: number }): Holder {
  return { taskId: lease.taskId, workerId: lease.workerId, leaseToken: lease.token };
}

/** Completes one task, as a process does that has no other to complete. */
export function completeTask(
  pool: TestDatabase['pool'],
  holder: Holder,
  answer: unknown,
  replayedCalls: number,
): Promise<boolean> {
  return new Completions(pool).complete(holder, answer, replayedCalls);
}

/** Gives a task back without using up an attempt; with `waitMs`, parked for so long. */
export async function release(
  { pool }: TestDatabase,
  lease: { taskId: number; workerId: number; token: number },
  { waitMs }: { waitMs?: number } = {},
): Promise<void> {
  const state = await endAttempt(
    pool,
    holderOf(lease),
    {
      how: waitMs === undefined ? 'released' : 'parked',
      failure: { kind: 'test', message: 'given back by the test' },
      final: false,
      waitUntil: waitMs === undefined ? undefined : new Date(Date.now() + waitMs),
      waitingFor: waitMs === undefined ? undefined : 'refusal',
    },
    0,
  );
  if (state !== 'pending') throw new Error(`task ${lease.taskId} was not given back`);
}

/** Takes a task away from its holder, as a sweep would. */
export async function takeAway({ pool }: TestDatabase, taskId: number, why = 'by the test'): Promise<void> {
  await pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [taskId, why]);
}

/** Registers a worker that has no connections: a row, as a dead process leaves it. */
export async function registerRow({ pool }: TestDatabase, differing: Partial<ProcessIdentity> = {}): Promise<number> {
  const { host, bootId, pid, pidStartedAt } = { ...thisProcess(), ...differing };
  const { rows } = await pool.query<{ id: number }>('SELECT madrugada.register_worker($1, $2, $3, $4) AS id', [
    host,
    bootId,
    pid,
    pidStartedAt,
  ]);
  return rows[0]?.id ?? 0;
}

/** Claims the batch's next task in the name of a worker, over the test's own connection. */
export async function claimFor(
  { pool }: TestDatabase,
  workerId: number,
  batchKey: string,
  slot = `slot-${workerId}`,
): Promise<Lease> {
  const task = await claimTask(pool, { batchKey, slot, workerId, agentSha256: 'test', after: 0 });
  if (task === undefined) throw new Error(`batch ${batchKey} has no task to claim`);
  return { batchKey, taskId: task.taskId, key: task.key, slot, workerId, token: task.leaseToken };
}

import { endAttempt, type Holder } from '../../src/lease/finish.ts';
import type { TestDatabase } from './database.ts';

/** What the functions of src/lease take for a lease of src/journal. */
export function holderOf(lease: { taskId: number; workerId: number; token: number }): Holder {
  return { taskId: lease.taskId, workerId: lease.workerId, leaseToken: lease.token };
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

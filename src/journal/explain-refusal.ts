import type { Pool } from 'pg';
import { patiently } from '../postgres/patiently.ts';
import type { Lease } from './lease.ts';
import type { Verdict } from './verdict.ts';

interface Standing {
  holds: boolean;
  batch_state: string;
  stop_reason: string | null;
  stopped: boolean;
  policy: 'pay_again' | 'hold';
  in_doubt: number | null;
  wait_until: Date | null;
}

/** Asks why the fence refused an intent (db/migrations/0005_journal.sql decides; this only words it). */
export async function explainRefusal(pool: Pool, lease: Lease, seq: number): Promise<Verdict> {
  const { rows } = await patiently(() =>
    pool.query<Standing>(
      `SELECT t.state = 'running' AND t.lease_token = $3 AND t.worker_id = $4 AND t.lease_expires_at > madrugada.now() AS holds,
            b.state AS batch_state, b.stop_reason, madrugada.is_stopped() AS stopped, b.doubt_policy AS policy, d.dispatch AS in_doubt,
            d.deadline_at + interval '30 seconds' AS wait_until
       FROM madrugada.task t
       JOIN madrugada.batch b ON b.batch_key = t.batch_key
       LEFT JOIN LATERAL (
         SELECT i.dispatch, i.deadline_at FROM madrugada.call_intent i
          WHERE i.batch_key = t.batch_key AND i.task_id = t.id AND i.seq = $2 AND NOT madrugada.may_pay_again(i, b.doubt_policy)
          ORDER BY i.dispatch DESC LIMIT 1) d ON true
      WHERE t.id = $1`,
      [lease.taskId, seq, lease.token, lease.workerId],
    ),
  );
  const [standing] = rows;
  if (standing === undefined) return { kind: 'lost', message: `task ${lease.key} is no longer in the database` };
  if (standing.stopped) return { kind: 'stopped', message: 'everything is stopped' };
  if (standing.batch_state !== 'open')
    return {
      kind: 'stopped',
      message: `batch ${lease.batchKey} is ${standing.batch_state}: ${standing.stop_reason ?? ''}`,
    };
  if (!standing.holds)
    return { kind: 'lost', message: `the lease on task ${lease.key} is no longer held by slot ${lease.slot}` };
  if (standing.in_doubt === null)
    return { kind: 'parked', waitingFor: 'doubt', until: new Date(), message: `call ${seq} was in doubt a moment ago` };
  return parkedForDoubt(
    seq,
    standing.in_doubt,
    standing.policy === 'hold' ? undefined : (standing.wait_until ?? undefined),
  );
}

/** The verdict for a call whose dispatch is in doubt: until a moment, or (undefined) until a bill or a person settles it. */
export function parkedForDoubt(seq: number, dispatch: number, until: Date | undefined): Verdict {
  const which = `dispatch ${dispatch} of call ${seq} is in doubt`;
  return until
    ? {
        kind: 'parked',
        waitingFor: 'doubt',
        until,
        message: `${which}: its sender may still be at work until ${until.toISOString()}`,
      }
    : {
        kind: 'parked',
        waitingFor: 'settlement',
        until,
        message: `${which}, and the batch's policy is to hold until a bill or a person settles it`,
      };
}

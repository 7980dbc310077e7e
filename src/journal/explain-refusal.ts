import type { Pool } from 'pg';
import { patiently } from '../postgres/patiently.ts';
import type { Lease } from './lease.ts';
import type { StandingDoubt } from './load-journal.ts';
import type { Verdict } from './verdict.ts';

interface Standing {
  holds: boolean;
  batch_state: string;
  stop_reason: string | null;
  stopped: boolean;
  policy: 'pay_again' | 'hold';
  in_doubt: number | null;
  wait_until: Date | null;
  is_settled: boolean | null;
}

/** Asks why the fence refused an intent (db/migrations/0005_journal.sql decides; this only words it). */
export async function explainRefusal(pool: Pool, lease: Lease, seq: number): Promise<Verdict> {
  const { rows } = await patiently(() =>
    pool.query<Standing>(
      `SELECT t.state = 'running' AND t.lease_token = $3 AND t.worker_id = $4 AND t.lease_expires_at > madrugada.now() AS holds,
            b.state AS batch_state, b.stop_reason, madrugada.is_stopped() AS stopped, b.doubt_policy AS policy, d.dispatch AS in_doubt,
            d.deadline_at + interval '30 seconds' AS wait_until, d.is_settled
       FROM madrugada.task t
       JOIN madrugada.batch b ON b.batch_key = t.batch_key
       LEFT JOIN LATERAL (
         SELECT i.dispatch, i.deadline_at,
                EXISTS (SELECT FROM madrugada.settlement s
                         WHERE s.batch_key = i.batch_key AND s.task_id = i.task_id AND s.seq = i.seq AND s.dispatch = i.dispatch) AS is_settled
           FROM madrugada.call_intent i
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
  return parkedForDoubt(lease, seq, {
    dispatch: standing.in_doubt,
    waitUntil: standing.policy === 'hold' ? undefined : (standing.wait_until ?? undefined),
    isSettled: standing.is_settled === true,
  });
}

/** The verdict for a call with a dispatch that no other may follow yet. */
export function parkedForDoubt(lease: Lease, seq: number, doubt: StandingDoubt): Verdict {
  const which = `dispatch ${doubt.dispatch} of call ${seq}`;
  if (doubt.waitUntil)
    return {
      kind: 'parked',
      waitingFor: 'doubt',
      until: doubt.waitUntil,
      message: `${which} is in doubt: its sender may still be at work until ${doubt.waitUntil.toISOString()}`,
    };
  return {
    kind: 'parked',
    waitingFor: 'settlement',
    until: undefined,
    message: doubt.isSettled
      ? `${which} was settled as charged; it is paid again only by a person's order: madrugada retry ${lease.key} --pay-again-from ${seq}`
      : `${which} is in doubt, and the batch's policy is to hold until a bill or a person settles it`,
  };
}

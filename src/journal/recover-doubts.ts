import { wakeTask } from '../lease/finish.ts';
import { patiently } from '../postgres/patiently.ts';
import type { JournalEnvironment } from './environment.ts';
import type { Lease } from './lease.ts';
import { loadJournal, type RecordedJournal } from './load-journal.ts';
import type { LookUp } from './look-up.ts';
import { outcomeFields } from './outcome.ts';
import { parkedForProof, proveDispatch } from './prove-dispatch.ts';
import type { Verdict } from './verdict.ts';

interface Doubt {
  seq: number;
  dispatch: number;
  method: string;
  path: string;
  model: string | null;
  tag: string;
  /** Another dispatch has answered the call: nothing will be paid again for it. */
  answered: boolean;
  /** The batch's policy is to hold. */
  onHold: boolean;
}

/**
 * Loads a task's journal with every doubt looked up that could be paid again. `parked`: of one of them nothing could be proved, so nothing
 * may be sent now.
 */
export async function loadRecovered(
  env: JournalEnvironment,
  lease: Lease,
): Promise<{ journal: RecordedJournal; parked: Verdict | undefined }> {
  for (;;) {
    const journal = await loadJournal(env.pool, lease);
    if (env.lookUp === undefined || journal.calls.length === 0) return { journal, parked: undefined };
    // read after the journal: what it takes for payable again is among them
    const doubts = await readDoubts(env, lease);
    const { settled, parked } = await recover(env, env.lookUp, lease, doubts);
    if (settled > 0) await wakeTask(env.pool, lease.taskId); // what was held for them is free, or spent
    if (parked || settled === 0) return { journal, parked };
  }
}

/** Dispatches without a settling outcome whose sender can bring the answer no more itself; not those that a person ordered to be paid again. */
async function readDoubts(env: JournalEnvironment, lease: Lease): Promise<Doubt[]> {
  const { rows } = await patiently(() =>
    env.pool.query<Doubt>(
      `SELECT i.seq, i.dispatch, i.method, i.path, i.model, i.tag,
              EXISTS (SELECT FROM madrugada.call_outcome a
                       WHERE a.batch_key = i.batch_key AND a.task_id = i.task_id AND a.seq = i.seq AND a.answers) AS answered,
              b.doubt_policy = 'hold' AS "onHold"
         FROM madrugada.call_intent i
         JOIN madrugada.batch b ON b.batch_key = i.batch_key
         LEFT JOIN madrugada.call_outcome o
           ON o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch
        WHERE i.batch_key = $1 AND i.task_id = $2
          AND NOT EXISTS (SELECT FROM madrugada.settlement s
                           WHERE s.batch_key = i.batch_key AND s.task_id = i.task_id AND s.seq = i.seq AND s.dispatch = i.dispatch)
          AND NOT EXISTS (SELECT FROM madrugada.pay_again p WHERE p.task_id = i.task_id AND i.seq BETWEEN p.from_seq AND p.to_seq)
        GROUP BY i.batch_key, i.task_id, i.seq, i.dispatch, b.doubt_policy
       HAVING NOT coalesce(bool_or(madrugada.settles(o.kind)), false)
          AND (count(o.kind) > 0 OR i.deadline_at + interval '30 seconds' < madrugada.now()
               OR EXISTS (SELECT FROM madrugada.worker w WHERE w.id = i.worker_id AND w.ended_at IS NOT NULL))
        ORDER BY i.seq, i.dispatch`,
      [lease.batchKey, lease.taskId],
    ),
  );
  return rows;
}

async function recover(
  env: JournalEnvironment,
  lookUp: LookUp,
  lease: Lease,
  doubts: Doubt[],
): Promise<{ settled: number; parked: Verdict | undefined }> {
  const verdicts = await Promise.all(doubts.map((doubt) => recoverOne(env, lookUp, lease, doubt)));
  const unproven = verdicts.filter((verdict) => verdict !== undefined);
  const parked = verdicts.find((verdict, index) => verdict !== undefined && !doubts[index]?.answered);
  return { settled: doubts.length - unproven.length, parked };
}

/** Records what the look-up proves; a verdict where that is nothing. */
async function recoverOne(
  env: JournalEnvironment,
  lookUp: LookUp,
  lease: Lease,
  { seq, dispatch, method, path, model, tag, onHold }: Doubt,
): Promise<Verdict | undefined> {
  const request = { method, url: new URL(path, 'http://provider') }; // which host it was does not count
  const proof = await proveDispatch(env, lookUp, tag, request);
  if (proof.kind === 'unproven') return parkedForProof(seq, dispatch, proof.why, onHold);
  const fields = outcomeFields(proof.ending, proof.reception, request, model ?? undefined, env.prices);
  await env.writer.writeOutcome({ lease, seq, dispatch, shown: false, ...fields });
  if (fields.kind === 'recovered') env.onCharge(fields.costUsd);
  return undefined;
}

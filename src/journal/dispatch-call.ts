import { setTimeout as delay } from 'node:timers/promises';
import { failpoint } from '../failpoint.ts';
import { patiently } from '../postgres/patiently.ts';
import type { DispatchEnd } from '../provider/refusal.ts';
import type { Allowance } from './allowance.ts';
import { waitAfter } from './back-off.ts';
import { Deadline } from './deadline.ts';
import { type DispatchHold, holdWorstCase } from './dispatch-hold.ts';
import type { JournalEnvironment } from './environment.ts';
import { explainRefusal, parkedForDoubt } from './explain-refusal.ts';
import type { Completed } from './journal-writer.ts';
import type { Lease } from './lease.ts';
import type { LiveCall, OutgoingCall } from './live-call.ts';
import type { RecordedResponse } from './load-journal.ts';
import { endingOf, outcomeFields, Reception } from './outcome.ts';
import { send } from './send.ts';
import { tagOf } from './tag.ts';
import type { Verdict } from './verdict.ts';

/**
 * What became of a call that went out: an answer or a final failure, both journaled; the end of the attempt; or (unwanted) neither, because
 * after a failure that could be tried again nobody waited for the call any more.
 */
export type CallResult =
  | { kind: 'answer' | 'failure'; completed: Completed; response: RecordedResponse }
  | { kind: 'ended'; verdict: Verdict }
  | { kind: 'unwanted' };

/**
 * Sends a call until it is answered, finally refused, may not be sent, or is not wanted any more: every dispatch is one intent before and one
 * outcome after. All retrying is done here; `over` aborts when the run has ended. Never throws for what a provider does.
 */
export async function dispatchCall(
  env: JournalEnvironment,
  lease: Lease,
  call: OutgoingCall,
  afterNo: number,
  over: AbortSignal,
  allowance: Allowance,
): Promise<CallResult> {
  const isWanted = () => call.issue.isOpen && !over.aborted;
  if (call.recorded?.doubt) {
    const { dispatch, waitUntil } = call.recorded.doubt;
    return { kind: 'ended', verdict: parkedForDoubt(call.seq, dispatch, waitUntil) };
  }
  const isResumed = call.recorded?.lastDispatch === call.lastDispatch; // not asked again by the code of this run
  const since = Date.now() - (isResumed ? (call.recorded?.tryingMs ?? 0) : 0);
  for (let tries = 1; ; tries += 1) {
    const held = await holdWorstCase(env, lease, call, allowance, over);
    if ('kind' in held) return held;
    call.lastDispatch += 1;
    const waitFor = (ending: DispatchEnd) => waitAfter(ending, tries, Date.now() - since, env.limits);
    const result = await dispatchOnce(env, lease, call, afterNo, held, waitFor);
    if (result.kind !== 'again') return result;
    if (!isWanted()) return { kind: 'unwanted' };
    const { waitMs, message } = result;
    if (result.isDoubt) {
      const doubt = await explainRefusal(env.pool, lease, call.seq);
      if (doubt.kind === 'parked' && doubt.waitingFor === 'settlement') return { kind: 'ended', verdict: doubt };
    }
    if (waitMs > env.limits.maxWaitMs) {
      const until = new Date(Date.now() + waitMs);
      return {
        kind: 'ended',
        verdict: { kind: 'parked', waitingFor: 'refusal', until, message: `call ${call.seq}: ${message}` },
      };
    }
    await delay(waitMs, undefined, { signal: over }).catch(() => undefined); // the end of the run cuts the wait short
    if (!isWanted()) return { kind: 'unwanted' };
  }
}

type Once = CallResult | { kind: 'again'; isDoubt: boolean; message: string; waitMs: number };
/** How long to wait after this ending; undefined to show it to the agent. */
type WaitFor = (ending: DispatchEnd) => number | undefined;

async function dispatchOnce(
  env: JournalEnvironment,
  lease: Lease,
  call: OutgoingCall,
  afterNo: number,
  hold: DispatchHold,
  waitFor: WaitFor,
): Promise<Once> {
  const deadline = new Deadline(env.limits.dispatchMs);
  const tag = tagOf(lease.key, call.seq, call.lastDispatch);
  await failpoint('journal.intent.before', lease.key);
  const committed = await env.writer.writeIntent({
    lease,
    seq: call.seq,
    dispatch: call.lastDispatch,
    scope: call.scope,
    requestSha256: call.identity.sha256,
    occurrence: call.occurrence,
    afterNo,
    method: call.request.method,
    path: call.request.url.pathname + call.request.url.search,
    model: call.identity.model,
    request: call.request.body,
    worstCaseUsd: hold.worstCaseUsd,
    tag,
    deadlineMs: deadline.totalMs,
  });
  if (!committed) {
    hold.withdraw();
    return { kind: 'ended', verdict: await explainRefusal(env.pool, lease, call.seq) };
  }
  await failpoint('journal.intent.after', lease.key);

  const reception = new Reception((chunk) => passOn(call, chunk, reception));
  const end = deadline.maySend
    ? await send(env, call.request, tag, deadline, reception)
    : ({ kind: 'not sent', error: 'too late to be sent' } as const);
  await failpoint('journal.outcome.before', lease.key);
  const ending = endingOf(end, call.request, reception);
  return record(env, lease, call, reception, ending, hold, waitFor);
}

/**
 * Passes a stream on as it arrives once an answer has begun, all but its end: the code sees that only when the outcome is committed. What is
 * refused before anything was generated is tried again unseen.
 */
function passOn({ issue }: LiveCall, chunk: Buffer, { stream, status, headers, body }: Reception): void {
  if (!issue.isOpen || !stream?.hasBegun || (stream.isComplete && stream.error === undefined)) return;
  if (issue.isStreaming) {
    issue.pushChunk(chunk);
  } else {
    issue.openStream(status, headers);
    issue.pushChunk(body); // with what came before it began, or before an abort
  }
}

async function record(
  env: JournalEnvironment,
  lease: Lease,
  call: OutgoingCall,
  reception: Reception,
  ending: DispatchEnd,
  hold: DispatchHold,
  waitFor: WaitFor,
): Promise<Once> {
  const isAnswer = ending.kind === 'completed';
  const isOfAccount = ending.kind === 'permanent for batch';
  const waitMs = waitFor(ending);
  const shown = !isAnswer && call.issue.isOpen && (call.issue.isStreaming || (waitMs === undefined && !isOfAccount));
  const fields = outcomeFields(ending, reception, call.request, call.identity.model, env.prices);
  hold.sendingEnded();
  const completed = await env.writer.writeOutcome({
    lease,
    seq: call.seq,
    dispatch: call.lastDispatch,
    shown,
    ...fields,
  });
  hold.settle(fields.kind, fields.costUsd);
  await failpoint('journal.outcome.after', lease.key);
  if (isAnswer) env.onCharge(fields.costUsd);
  if (isOfAccount) return { kind: 'ended', verdict: await stopForAccount(env, lease, ending.message) };
  if (!isAnswer && !shown)
    return { kind: 'again', isDoubt: fields.kind === 'unknown', message: ending.message, waitMs: waitMs ?? 0 };
  return {
    kind: isAnswer ? 'answer' : 'failure',
    completed,
    response: {
      seq: call.seq,
      dispatch: call.lastDispatch,
      outcome: fields.kind,
      status: reception.status,
      headers: reception.headers,
      error: fields.error,
      costUsd: fields.costUsd,
      body: reception.body,
    },
  };
}

/** No call of the batch would fare better: nothing of it is sent any more until a person resumes it. */
async function stopForAccount(env: JournalEnvironment, lease: Lease, message: string): Promise<Verdict> {
  await patiently(() =>
    env.pool.query('SELECT madrugada.stop_batch($1, $2)', [
      lease.batchKey,
      `the provider refuses this account: ${message}`,
    ]),
  );
  return { kind: 'stopped', message: `batch ${lease.batchKey} was stopped: ${message}` };
}

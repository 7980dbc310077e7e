import { setTimeout as delay } from 'node:timers/promises';
import { failpoint } from '../failpoint.ts';
import { patiently } from '../postgres/patiently.ts';
import type { Allowance } from './allowance.ts';
import { Deadline } from './deadline.ts';
import { type DispatchHold, holdWorstCase } from './dispatch-hold.ts';
import type { JournalEnvironment } from './environment.ts';
import { explainRefusal, parkedForDoubt } from './explain-refusal.ts';
import type { Completed } from './journal-writer.ts';
import type { Lease } from './lease.ts';
import type { LiveCall, OutgoingCall } from './live-call.ts';
import type { RecordedResponse } from './load-journal.ts';
import { type Ending, endingOf, isAnswer, outcomeFields, Reception } from './outcome.ts';
import { parkedForProof, proveDispatch } from './prove-dispatch.ts';
import { send } from './send.ts';
import { tagOf } from './tag.ts';
import type { Verdict } from './verdict.ts';

/**
 * What became of a call that went out: an answer or a final failure, both journaled; the end of the attempt; or (unwanted) neither, because
 * after a failure that could be tried again nobody waited for the call any more.
 */
export type CallResult =
  | { kind: 'answer' | 'failure'; completed: Completed; response: RecordedResponse; isPermanent: boolean }
  | { kind: 'ended'; verdict: Verdict }
  | { kind: 'unwanted' };

/** First back-off after a refusal; doubled each time, up to the longest. */
const BACKOFF_MS = 500;
const LONGEST_BACKOFF_MS = 30_000;

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
  for (let tries = 1; ; tries += 1) {
    const held = await holdWorstCase(env, lease, call, allowance, over);
    if ('kind' in held) return held;
    call.lastDispatch += 1;
    const result = await dispatchOnce(env, lease, call, afterNo, held, over, tries >= env.limits.maxDispatches);
    if (result.kind !== 'again') return result;
    if (result.ending.kind === 'unknown' && env.lookUp) {
      const onHold = isHeld(await explainRefusal(env.pool, lease, call.seq));
      const why = result.ending.error ?? '';
      return { kind: 'ended', verdict: parkedForProof(call.seq, call.lastDispatch, why, onHold) };
    }
    if (!isWanted()) return { kind: 'unwanted' };
    const waitMs =
      result.ending.refusal?.retryAfterMs ?? Math.random() * Math.min(BACKOFF_MS * 2 ** tries, LONGEST_BACKOFF_MS);
    if (result.ending.kind === 'unknown') {
      const doubt = await explainRefusal(env.pool, lease, call.seq);
      if (isHeld(doubt)) return { kind: 'ended', verdict: doubt };
    }
    if (waitMs > env.limits.maxWaitMs) {
      const until = new Date(Date.now() + waitMs);
      return {
        kind: 'ended',
        verdict: { kind: 'parked', waitingFor: 'refusal', until, message: `call ${call.seq}: ${result.ending.error}` },
      };
    }
    await delay(waitMs, undefined, { signal: over }).catch(() => undefined); // the end of the run cuts the wait short
    if (!isWanted()) return { kind: 'unwanted' };
  }
}

/** The batch's policy is to hold what is in doubt. */
function isHeld(verdict: Verdict): boolean {
  return verdict.kind === 'parked' && verdict.waitingFor === 'settlement';
}

type Once = CallResult | { kind: 'again'; ending: Ending };

async function dispatchOnce(
  env: JournalEnvironment,
  lease: Lease,
  call: OutgoingCall,
  afterNo: number,
  hold: DispatchHold,
  over: AbortSignal,
  isLast: boolean,
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
    ? await send(env.dispatcher, call.request, tag, deadline, reception)
    : ({ kind: 'not sent', error: 'too late to be sent' } as const);
  await failpoint('journal.outcome.before', lease.key);
  const ending = endingOf(end, reception);
  if (ending.kind !== 'unknown' || env.lookUp === undefined)
    return record(env, lease, call, reception, ending, hold, isLast);
  const proof = await proveDispatch(env, env.lookUp, tag, over);
  if (proof.kind === 'unproven')
    return record(env, lease, call, reception, { ...ending, error: `${ending.error}; ${proof.why}` }, hold, false);
  const result = await record(env, lease, call, proof.reception, proof.ending, hold, isLast);
  const goesOn = proof.reception.body.subarray(0, reception.body.length).equals(reception.body);
  // what the code has read of a stream is not how the recovered one begins: it reads that from the start, from the journal
  if (result.kind === 'answer' && call.issue.isStreaming && !goesOn)
    return { kind: 'ended', verdict: { kind: 'replay' } };
  return result;
}

/** Passes a stream on as it arrives, all but its end: the code sees that only when the outcome is committed. */
function passOn({ issue }: LiveCall, chunk: Buffer, reception: Reception): void {
  if (!issue.isOpen || reception.stream?.isComplete) return;
  if (issue.isStreaming) {
    issue.pushChunk(chunk);
  } else if (reception.stream?.error === undefined) {
    issue.openStream(reception.status, reception.headers);
    issue.pushChunk(reception.body); // one asked again after an abort gets also what came before
  } // else refused before anything was generated: tried again unseen
}

async function record(
  env: JournalEnvironment,
  lease: Lease,
  call: OutgoingCall,
  reception: Reception,
  ending: Ending,
  hold: DispatchHold,
  isLast: boolean,
): Promise<Once> {
  const isPermanent = ending.refusal?.kind === 'permanent';
  const answers = isAnswer(ending.kind);
  const mayBeRecovered = ending.kind === 'unknown' && env.lookUp !== undefined; // the code must not go on from a failure that ends as an answer
  const shown = !answers && !mayBeRecovered && call.issue.isOpen && (isPermanent || isLast || call.issue.isStreaming);
  const fields = outcomeFields(ending, reception, call.request, call.identity.model, env.prices);
  hold.sendingEnded();
  const completed = await env.writer.writeOutcome({
    lease,
    seq: call.seq,
    dispatch: call.lastDispatch,
    shown,
    ...fields,
  });
  hold.settle(ending.kind, fields.costUsd);
  await failpoint('journal.outcome.after', lease.key);
  if (answers) env.onCharge(fields.costUsd);
  if (ending.refusal?.kind === 'account') {
    await patiently(() =>
      env.pool.query('SELECT madrugada.stop_batch($1, $2)', [
        lease.batchKey,
        `the provider refuses this account: ${ending.error}`,
      ]),
    );
    return {
      kind: 'ended',
      verdict: { kind: 'stopped', message: `batch ${lease.batchKey} was stopped: ${ending.error}` },
    };
  }
  if (!answers && !shown) return { kind: 'again', ending };
  return {
    kind: answers ? 'answer' : 'failure',
    completed,
    isPermanent,
    response: {
      seq: call.seq,
      dispatch: call.lastDispatch,
      outcome: ending.kind,
      status: reception.status,
      headers: reception.headers,
      error: ending.error,
      costUsd: fields.costUsd,
      body: reception.body,
    },
  };
}

import { setTimeout as delay } from 'node:timers/promises';
import { failpoint } from '../failpoint.ts';
import type { Allowance } from './allowance.ts';
import { waitAfter } from './back-off.ts';
import { addressOf, mostTokensOf, tellFleet } from './call-pace.ts';
import { Deadline } from './deadline.ts';
import { type DispatchHold, holdWorstCase } from './dispatch-hold.ts';
import type { JournalEnvironment } from './environment.ts';
import { explainRefusal, parkedForDoubt } from './explain-refusal.ts';
import { askingOf, FallBack } from './fall-back.ts';
import type { Completed } from './journal-writer.ts';
import type { Lease } from './lease.ts';
import type { LiveCall, OutgoingCall } from './live-call.ts';
import type { RecordedResponse } from './load-journal.ts';
import { type Ending, endingOf, isAnswer, outcomeFields, outcomeKindOf, Reception } from './outcome.ts';
import { parkedForProof, proveDispatch } from './prove-dispatch.ts';
import { send } from './send.ts';
import { stopAutomatically } from './stop-automatically.ts';
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
  if (call.recorded?.doubt) return { kind: 'ended', verdict: parkedForDoubt(lease, call.seq, call.recorded.doubt) };
  const isResumed = call.recorded?.lastDispatch === call.lastDispatch; // not asked again by the code of this run
  const since = Date.now() - (isResumed ? (call.recorded?.tryingMs ?? 0) : 0);
  const fallBack = await FallBack.of(env, lease, call, allowance.fallBack);
  for (let tries = 1; ; tries += 1) {
    if (fallBack.changeModel()) tries = 1;
    const notYet = await waitForTurn(env, call, over);
    if (notYet) return notYet;
    const held = await holdWorstCase(env, lease, call, allowance, over);
    if ('kind' in held) return held;
    call.onActivity(); // each dispatch has the whole of its time, however long those before it took
    call.lastDispatch += 1;
    const waitFor = (ending: Ending) =>
      fallBack.changesModelAfter(ending) ? 0 : waitAfter(ending, tries, Date.now() - since, env.limits);
    const result = await dispatchOnce(env, lease, call, afterNo, held, over, waitFor);
    call.onActivity();
    if (result.kind !== 'again') return result;
    if (result.isDoubt && env.lookUp) {
      const onHold = isHeld(await explainRefusal(env.pool, lease, call.seq));
      return { kind: 'ended', verdict: parkedForProof(call.seq, call.lastDispatch, result.message, onHold) };
    }
    if (!isWanted()) return { kind: 'unwanted' };
    const { waitMs, message } = result;
    if (result.isDoubt) {
      const doubt = await explainRefusal(env.pool, lease, call.seq);
      if (isHeld(doubt)) return { kind: 'ended', verdict: doubt };
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

/** Waits for the call's turn at its provider. A turn further off than a slot sits out parks the task. */
async function waitForTurn(
  env: JournalEnvironment,
  call: OutgoingCall,
  over: AbortSignal,
): Promise<CallResult | undefined> {
  const turn = await env.pace.takeTurn(addressOf(call), () => mostTokensOf(env, call), env.limits.maxWaitMs);
  if (turn.kind === 'parked') {
    const message = `call ${call.seq}: the provider has asked to slow down; its turn is at ${turn.until.toISOString()}`;
    return { kind: 'ended', verdict: { kind: 'parked', waitingFor: 'refusal', until: turn.until, message } };
  }
  call.taken = turn.taken;
  call.isCounted = turn.isCounted;
  if (turn.waitMs === 0) return undefined;
  await delay(turn.waitMs, undefined, { signal: over }).catch(() => undefined);
  return call.issue.isOpen && !over.aborted ? undefined : { kind: 'unwanted' };
}

/** The batch's policy is to hold what is in doubt. */
function isHeld(verdict: Verdict): boolean {
  return verdict.kind === 'parked' && verdict.waitingFor === 'settlement';
}

type Once = CallResult | { kind: 'again'; isDoubt: boolean; message: string; waitMs: number };
/** How long to wait after this ending; undefined to show it to the agent. */
type WaitFor = (ending: Ending) => number | undefined;

async function dispatchOnce(
  env: JournalEnvironment,
  lease: Lease,
  call: OutgoingCall,
  afterNo: number,
  hold: DispatchHold,
  over: AbortSignal,
  waitFor: WaitFor,
): Promise<Once> {
  const deadline = new Deadline(env.limits.dispatchMs);
  const { request, model } = askingOf(call);
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
    method: request.method,
    path: request.url.pathname + request.url.search,
    model,
    askedModel: model === call.identity.model ? undefined : call.identity.model,
    request: request.body,
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
    ? await send(env, request, { tag, tagging: env.tagging }, deadline, call.brake, reception)
    : ({ kind: 'not sent', error: 'too late to be sent' } as const);
  await failpoint('journal.outcome.before', lease.key);
  const ending = endingOf(end, request, reception);
  if (outcomeKindOf(ending) !== 'unknown' || !('message' in ending) || env.lookUp === undefined)
    return record(env, lease, call, reception, ending, hold, waitFor);
  call.onActivity();
  const proof = await proveDispatch(env, env.lookUp, tag, request, over);
  if (proof.kind === 'unproven') {
    const inDoubt = { ...ending, message: `${ending.message}; ${proof.why}` };
    return record(env, lease, call, reception, inDoubt, hold, waitFor);
  }
  const result = await record(env, lease, call, proof.reception, proof.ending, hold, waitFor);
  const goesOn = proof.reception.body.subarray(0, reception.body.length).equals(reception.body);
  // what the code has read of a stream is not how the recovered one begins: it reads that from the start, from the journal
  if (result.kind === 'answer' && call.issue.isStreaming && !goesOn)
    return { kind: 'ended', verdict: { kind: 'replay' } };
  return result;
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
  ending: Ending,
  hold: DispatchHold,
  waitFor: WaitFor,
): Promise<Once> {
  const { request, model } = askingOf(call);
  const fields = outcomeFields(ending, reception, request, model, env.prices);
  const answers = isAnswer(ending);
  const isOfAccount = ending.kind === 'permanent for batch';
  const mayBeRecovered = fields.kind === 'unknown' && env.lookUp !== undefined; // the code must not go on from a failure that ends as an answer
  const waitMs = waitFor(ending);
  const isFinal = call.issue.isStreaming || (waitMs === undefined && !isOfAccount);
  const shown = !answers && !mayBeRecovered && call.issue.isOpen && isFinal;
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
  tellFleet(env, lease, call, ending, reception, fields);
  if (answers) env.onCharge(fields.costUsd);
  if (isOfAccount) {
    const why = `the provider refuses this account: ${ending.message}`;
    return { kind: 'ended', verdict: await stopAutomatically(env.pool, lease.batchKey, 'account', why) };
  }
  if (!answers && !shown)
    return { kind: 'again', isDoubt: fields.kind === 'unknown', message: fields.error ?? '', waitMs: waitMs ?? 0 };
  return {
    kind: answers ? 'answer' : 'failure',
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

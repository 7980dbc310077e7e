import { setTimeout as delay } from 'node:timers/promises';
import type { JournalEnvironment } from './environment.ts';
import { type LookUp, type LookUpReply, lookUpDispatch } from './look-up.ts';
import { type Ending, endingOf, Reception } from './outcome.ts';
import type { JournaledRequest } from './request.ts';
import type { Verdict } from './verdict.ts';

/** What a look-up has proved of a dispatch in doubt: how it ended, with its response; or nothing, and why. */
export type Proof = { kind: 'proven'; ending: Ending; reception: Reception } | { kind: 'unproven'; why: string };

type AskedFor = Pick<JournaledRequest, 'method' | 'url'>;

/** Between two look-ups of a dispatch in progress, where the other side does not say. */
const ASK_AGAIN_MS = 1_000;
/** A look-up that fails is tried again after the first of these waits, then after the next, and then given up. */
const RETRY_MS = [200, 600, 1_800];
/** Until a task whose dispatch could not be proved is tried again. */
const PARKED_MS = 60_000;

/** Looks a dispatch up until something is proved of it, it stays in progress for too long, the look-up has failed too often, or `over` aborts. */
export async function proveDispatch(
  { dispatcher, limits }: Pick<JournalEnvironment, 'dispatcher' | 'limits'>,
  lookUp: LookUp,
  tag: string,
  request: AskedFor,
  over?: AbortSignal,
): Promise<Proof> {
  const startedAt = performance.now();
  for (let failures = 0; ; ) {
    const reply = await lookUpDispatch(dispatcher, lookUp, tag);
    if (reply.state !== 'in-progress' && reply.state !== 'failed') return proofBy(reply, request);
    const waitMs = reply.state === 'failed' ? RETRY_MS[failures++] : (reply.retryAfterMs ?? ASK_AGAIN_MS);
    if (waitMs === undefined || over?.aborted || performance.now() - startedAt + waitMs > limits.maxWaitMs)
      return { kind: 'unproven', why: reply.state === 'failed' ? reply.why : 'the provider is still at work on it' };
    await delay(waitMs, undefined, over && { signal: over }).catch(() => undefined); // asked once more, then
  }
}

/** The verdict for a call whose dispatch could not be proved: it is not paid again before somebody knows. `onHold`: a person may decide, too. */
export function parkedForProof(seq: number, dispatch: number, why: string, onHold: boolean): Verdict {
  const until = new Date(Date.now() + PARKED_MS);
  return {
    kind: 'parked',
    // for a doubt that the policy lets be paid again the database does not wait
    waitingFor: onHold ? 'settlement' : 'refusal',
    until,
    message: `dispatch ${dispatch} of call ${seq} is in doubt, and is not paid again before it is proved what became of it: ${why}. It is looked up again at ${until.toISOString()}`,
  };
}

function proofBy(reply: Exclude<LookUpReply, { state: 'in-progress' | 'failed' }>, request: AskedFor): Proof {
  const reception = new Reception(() => undefined);
  if (reply.state === 'unproven') return { kind: 'unproven', why: reply.why };
  if (reply.state === 'not-received') {
    const message = 'the look-up says that it was not received';
    return { kind: 'proven', ending: { kind: 'not sent', message }, reception };
  }
  reception.onHead(reply.status, reply.headers);
  reception.onChunk(reply.body);
  const ending = endingOf({ kind: 'whole' }, request, reception);
  if (reply.state === 'answered' && ending.kind === 'completed')
    return { kind: 'proven', ending: { kind: 'recovered', statedCostUsd: reply.costUsd }, reception };
  // a refusal that came after something was generated: only the other side knows that it costs nothing
  if (reply.state === 'refused' && 'charge' in ending)
    return { kind: 'proven', ending: { ...ending, charge: 'none' }, reception };
  return { kind: 'unproven', why: `the look-up says "${reply.state}", which the response it gives is not` };
}

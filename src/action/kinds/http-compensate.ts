import { type ActionContext, NoEffect, type ReadBack, UndoRefused } from '../define-action.ts';
import { stringifyExact } from './exact-json.ts';
import { makeEffect } from './http-effect.ts';
import type { Http, HttpEffect, HttpRollback, HttpUndo } from './http-options.ts';
import { readBackResource, readResource } from './http-read-back.ts';
import { toUrl } from './http-target.ts';
import { refuseIfChanged } from './http-undo-refused.ts';
import type { Recent } from './recent.ts';

/** What this process knows of a compensation it has sent: it took effect, or certainly did not. */
export type Sent = { created: HttpEffect | undefined } | 'nothing';

type Compensation<Args> = Extract<HttpRollback<Args>, { kind: 'compensating' }>;

/** Sends the compensation, unless it is there already, and only while its reason is as it was seen. */
export async function compensate<Args>(
  http: Http<Args>,
  rollback: Compensation<Args>,
  sent: Recent<Sent>,
  undo: HttpUndo<Args>,
  context: ActionContext,
): Promise<void> {
  const there = await readCompensation(http, rollback, sent, undo, context);
  if (there.found === 'effect') return;
  if (there.found === 'something else')
    throw new UndoRefused('what is found of the compensation is not what it should be');
  const memory = sent.get(context.key);
  if (memory !== undefined && memory !== 'nothing' && !http.enforcesKey)
    throw new UndoRefused('it was sent, what became of it is not known, and the target would take it a second time');
  const known = { key: undo.before.key, created: undo.effect };
  const now = await readResource(http, undo.args, known, context.signal);
  if (now !== undefined) refuseIfChanged(http, undo, now);
  else if (!undo.effect) throw new UndoRefused('it is not known whether there is an effect to compensate');
  await sendCompensation(http, rollback, sent, undo, context);
}

async function sendCompensation<Args>(
  http: Http<Args>,
  rollback: Compensation<Args>,
  sent: Recent<Sent>,
  undo: HttpUndo<Args>,
  context: ActionContext,
): Promise<void> {
  try {
    const { method, url, body } = rollback.request(undo);
    const request = { method, url: toUrl(url), body: body === undefined ? undefined : stringifyExact(body) };
    const extra = { [http.options.keyHeader ?? 'idempotency-key']: context.key };
    sent.set(context.key, { created: undefined });
    const created = await makeEffect(http, request, () => http.target.write(request, extra, context.signal));
    sent.set(context.key, { created });
  } catch (error) {
    if (!(error instanceof NoEffect)) throw error;
    sent.set(context.key, 'nothing');
    throw new Error(`the compensation was not made: ${error.message}`);
  }
}

/**
 * Reads the compensation back. That nothing is found is believed where the target takes each key once, or where this process knows that
 * nothing was sent; otherwise a request may still be on its way, and it is `unknown` (rule R16).
 */
export async function readCompensation<Args>(
  http: Http<Args>,
  rollback: Compensation<Args>,
  sent: Recent<Sent>,
  undo: HttpUndo<Args>,
  context: ActionContext,
): Promise<ReadBack> {
  const memory = sent.get(context.key);
  const created = memory === 'nothing' ? undefined : memory?.created;
  const intended = rollback.intended ? rollback.intended(undo) : rollback.request(undo).body;
  const found = await readBackResource({
    http,
    reading: { intended: intended ?? {}, matches: undefined },
    known: { key: context.key, created },
    read: async (known) => {
      const url = rollback.resource(undo, known);
      const pick = rollback.pick && ((json: unknown) => rollback.pick?.(json, undo, known));
      return url === undefined ? undefined : http.target.read(toUrl(url), pick, context.signal);
    },
    before: { key: context.key, resource: null, condition: null },
    signal: context.signal,
  });
  if (found.found === 'unknown' && memory === 'nothing') return { found: 'nothing', evidence: found.evidence };
  const isCertain = http.enforcesKey || memory === 'nothing';
  return found.found === 'nothing' && !isCertain ? { found: 'unknown', evidence: found.evidence } : found;
}

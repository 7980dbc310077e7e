import { createHash } from 'node:crypto';
import { type ActionContext, type Rollback, UndoRefused } from '../define-action.ts';
import { stringifyExact } from './exact-json.ts';
import { compensate, readCompensation, type Sent } from './http-compensate.ts';
import type {
  Http,
  HttpBefore,
  HttpEffect,
  HttpRollback,
  HttpUndo,
  HttpUndoRequest,
  KnownResource,
} from './http-options.ts';
import { isAsBefore, readingOf, readResource, strongEtag } from './http-read-back.ts';
import { isAbsent, isSuccess } from './http-status.ts';
import { hint, toUrl } from './http-target.ts';
import { refuseIfChanged } from './http-undo-refused.ts';
import { Recent } from './recent.ts';

export function rollbackOf<Args>(http: Http<Args>): Rollback<Args, HttpBefore, HttpEffect> {
  const { secrets } = http;
  const { rollback } = http.options;
  if (rollback.kind === 'out-of-band') return { kind: rollback.kind, plan: rollback.plan };
  if (rollback.kind === 'none') return { kind: rollback.kind, cannot: rollback.cannot };
  if (rollback.kind === 'in-band') {
    if (http.options.pick && !rollback.request)
      throw new Error(
        'httpAction: with pick(), the in-band rollback needs a request(): a look-up URL cannot be written to',
      );
    return {
      kind: 'in-band',
      plan: rollback.plan,
      undo: (undo, context) => secrets.guard(() => undoInBand(http, rollback, undo, context)),
    };
  }
  const sent = new Recent<Sent>();
  return {
    kind: 'compensating',
    plan: rollback.plan,
    undo: (undo, context) => secrets.guard(() => compensate(http, rollback, sent, undo, context)),
    readBack: (undo, context) => secrets.guard(() => readCompensation(http, rollback, sent, undo, context)),
  };
}

/** The inverse request, under the condition that the target is as it was seen; nothing, where it is as before already. */
async function undoInBand<Args>(
  http: Http<Args>,
  rollback: Extract<HttpRollback<Args>, { kind: 'in-band' }>,
  undo: HttpUndo<Args>,
  context: ActionContext,
): Promise<void> {
  const known = { key: undo.before.key, created: undo.effect };
  const now = await readResource(http, undo.args, known, context.signal);
  if (now === undefined) throw new UndoRefused('the address of what is to be undone is not known');
  if (isAsBefore(now, readingOf(http, undo.args), undo.before)) return;
  refuseIfChanged(http, undo, now);
  const { method, url, body } = rollback.request ? rollback.request(undo) : defaultUndo(http, undo, known);
  const address = toUrl(url);
  const etag = strongEtag(now.etag);
  const isRead = address.href === toUrl(http.options.resource(undo.args, known) ?? address).href;
  const condition = isRead && etag !== undefined ? { 'if-match': etag } : {};
  const key = createHash('sha256').update(`${context.key}/undo`).digest('hex'); // the action's own is spent
  const what = `${method} ${http.target.shown(address)}`;
  const text = body instanceof Verbatim ? body.text : body === undefined ? undefined : stringifyExact(body);
  const reply = await http.target.write(
    { method, url: address, body: text },
    { [http.options.keyHeader ?? 'idempotency-key']: key, ...condition },
    context.signal,
  );
  if (reply.status === 412) throw new UndoRefused(`${what}: the target has changed since it was read (412)`);
  const isGone = method === 'DELETE' && isAbsent(reply.status);
  if (!isSuccess(reply.status) && !isGone)
    throw new Error(`${what} was answered with HTTP ${reply.status}${hint(reply)}`);
}

/** JSON that goes out as it came in. */
class Verbatim {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

function defaultUndo<Args>(
  { options }: Http<Args>,
  { args, before }: HttpUndo<Args>,
  known: KnownResource,
): HttpUndoRequest {
  const url = options.resource(args, known) ?? '';
  const text = before.resource?.text ?? null;
  return text === null ? { method: 'DELETE', url } : { method: 'PUT', url, body: new Verbatim(text) };
}

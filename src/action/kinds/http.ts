import type { ActionContext, ActionKind, Precondition, ReadBack } from '../define-action.ts';
import { stringifyExact } from './exact-json.ts';
import { ConditionFailed, makeEffect, unlessSent } from './http-effect.ts';
import type { Http, HttpBefore, HttpEffect, HttpOptions } from './http-options.ts';
import { readBackResource, readingOf, readResource, snapshotOf, strongEtag } from './http-read-back.ts';
import { HttpTarget, toUrl } from './http-target.ts';
import { rollbackOf } from './http-undo.ts';
import { Secrets } from './secrets.ts';

/**
 * An effect made by POST or PUT with an idempotency key, and read back by GET. Where the precondition, or the state before, was read from
 * the very address written to and had an ETag, that goes along as `If-Match`: the target itself refuses if it was changed in between.
 */
export function httpAction<Args>(options: HttpOptions<Args>): ActionKind<Args, HttpBefore, HttpEffect> {
  const secrets = new Secrets();
  const {
    headers,
    plainHeaders = {},
    dispatcher,
    maxBytes = 1_048_576,
    enforcesKey = false,
    settleMs = 60_000,
  } = options;
  const target = new HttpTarget({ headers, plainHeaders, dispatcher, maxBytes, secrets });
  const http = { target, secrets, options, enforcesKey };
  const watched = options.precondition?.url ?? (options.method === 'PUT' ? options.url : undefined);
  return {
    kind: 'http',
    present: (args) => secrets.guard(() => present(http, args, watched?.(args))),
    precondition: (args, context) => secrets.guard(() => checkPrecondition(http, args, context)),
    execute: (args, before, context) => secrets.guard(() => execute(http, args, before, context)),
    verify: (args, before, effect, context) => secrets.guard(() => verify(http, args, before, effect, context)),
    rollback: rollbackOf(http),
    enforcesKey,
    settleMs,
  };
}

/** What is to be sent, beside what stands there now; there may be nothing to read before it exists. */
async function present<Args>(
  { target, secrets, options }: Http<Args>,
  args: Args,
  watched: string | URL | undefined,
): Promise<unknown> {
  const found =
    watched === undefined ? undefined : await target.read(toUrl(watched), undefined, AbortSignal.timeout(30_000));
  const url = await target.learn(toUrl(options.url(args)));
  const request = { method: options.method, url, body: stringifyExact(options.body(args)) };
  return secrets.json({ ...(found && { url: found.url, status: found.status, content: found.text }), request });
}

async function checkPrecondition<Args>(
  http: Http<Args>,
  args: Args,
  context: ActionContext,
): Promise<Precondition<HttpBefore>> {
  const { target, secrets, options } = http;
  const known = { key: context.key, created: undefined };
  const where = options.resource(args, known);
  const resource = where === undefined ? undefined : await readResource(http, args, known, context.signal);
  const other = options.precondition?.url?.(args);
  const isOther = other !== undefined && (where === undefined || toUrl(other).href !== toUrl(where).href);
  const condition = isOther ? await target.read(toUrl(other), undefined, context.signal) : resource;
  if (resource !== undefined && resource.count > 1)
    return { holds: false, why: `${resource.count} resources are found for this action at ${resource.url}` };
  if (options.precondition !== undefined) {
    if (condition === undefined)
      throw new Error('the precondition has no URL, and the resource has none before it exists');
    const verdict = options.precondition.holds(condition, args);
    if (verdict !== true) return { holds: false, why: secrets.text(verdict) };
  }
  if (resource !== undefined && secrets.isShownBy(resource.text))
    return { holds: false, why: `${resource.url} shows a credential, which cannot be kept; leave it out with pick()` };
  return {
    holds: true,
    before: {
      key: context.key,
      resource: resource === undefined ? null : snapshotOf(resource),
      condition: isOther && condition ? { ...snapshotOf(condition), text: null } : null,
    },
  };
}

async function execute<Args>(
  http: Http<Args>,
  args: Args,
  before: HttpBefore,
  context: ActionContext,
): Promise<HttpEffect> {
  const { options, target } = http;
  const request = await unlessSent(() => ({
    method: options.method,
    url: toUrl(options.url(args)),
    body: stringifyExact(options.body(args)),
  }));
  const extra = {
    [options.keyHeader ?? 'idempotency-key']: context.key,
    ...conditionOf(options, args, before),
  };
  try {
    return await makeEffect(http, request, () => target.write(request, extra, context.signal));
  } catch (error) {
    if (!(error instanceof ConditionFailed)) throw error;
    // who changed the target may have been this very action, in an execution that was cut off
    const found = await verify(http, args, before, undefined, context);
    throw found.found === 'effect' ? new Error(`${error.message}; and it is as intended`) : error;
  }
}

/** A condition holds for one address only: the ETag of an account says nothing to the address that payments are posted to. */
function conditionOf<Args>(options: HttpOptions<Args>, args: Args, before: HttpBefore): Record<string, string> {
  const written = toUrl(options.url(args)).href;
  const isWritten = (url: string | URL | undefined) => url !== undefined && toUrl(url).href === written;
  if (before.condition && isWritten(options.precondition?.url?.(args))) {
    const etag = strongEtag(before.condition.etag);
    return etag === undefined ? {} : { 'if-match': etag };
  }
  if (!before.resource || options.pick || !isWritten(options.resource(args, { key: before.key, created: undefined })))
    return {};
  if (before.resource.absent) return options.method === 'PUT' ? { 'if-none-match': '*' } : {};
  const etag = strongEtag(before.resource.etag);
  return etag === undefined ? {} : { 'if-match': etag };
}

async function verify<Args>(
  http: Http<Args>,
  args: Args,
  before: HttpBefore,
  effect: HttpEffect | undefined,
  context: ActionContext,
): Promise<ReadBack> {
  return readBackResource({
    http,
    reading: readingOf(http, args),
    known: { key: before.key, created: effect ?? undefined },
    read: (known) => readResource(http, args, known, context.signal),
    before,
    signal: context.signal,
  });
}

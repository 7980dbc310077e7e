import { messageOf } from '../../errors.ts';
import { NoEffect } from '../define-action.ts';
import { parseKeepingDigits } from './exact-json.ts';
import type { Http, HttpEffect } from './http-options.ts';
import { NotSent } from './http-request.ts';
import { isSuccess, whyNothingDone } from './http-status.ts';
import { type HttpTarget, hint } from './http-target.ts';

/** As much of an answer to the effect is kept with the action, in characters. */
const KEPT_BODY = 65_536;

/** The target has refused it under the condition that went along (`If-Match`). */
export class ConditionFailed extends NoEffect {}

/** Sends, and draws from the answer what is certain: an effect, that there is none (`NoEffect`), or an error that leaves it in question. */
export async function makeEffect<Args>(
  { target, secrets, enforcesKey }: Http<Args>,
  { method, url }: { method: string; url: URL },
  send: () => ReturnType<HttpTarget['write']>,
): Promise<HttpEffect> {
  const what = `${method} ${target.shown(url)}`;
  const reply = await send().catch((error: unknown) => {
    const words = messageOf(error);
    if (error instanceof NotSent) throw new NoEffect(`${what}: nothing was sent: ${words}`);
    throw new Error(`${what}: no answer came: ${words}`);
  });
  const said = `${what} was answered with HTTP ${reply.status}`;
  if (!isSuccess(reply.status)) {
    const why = whyNothingDone(reply.status, enforcesKey);
    const Refusal = reply.status === 412 ? ConditionFailed : NoEffect;
    if (why !== undefined) throw new Refusal(`${said}: ${why}${hint(reply)}`);
    throw new Error(`${said}${hint(reply)}`);
  }
  const body = reply.body === undefined || reply.body.length > KEPT_BODY ? undefined : jsonOrText(reply.body);
  return secrets.json({ status: reply.status, location: reply.headers.location, etag: reply.headers.etag, body });
}

/** What goes wrong while the request is being made, before it can be sent. */
export async function unlessSent<T>(make: () => T): Promise<T> {
  try {
    return make();
  } catch (error) {
    throw new NoEffect(`the request cannot be made: ${messageOf(error)}`);
  }
}

function jsonOrText(body: string): unknown {
  try {
    return parseKeepingDigits(body);
  } catch {
    return body;
  }
}

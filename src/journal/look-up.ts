import { type Dispatcher, request } from 'undici';
import { messageOf } from '../errors.ts';
import { retryAfterMs } from '../provider/retry-after.ts';
import { keptHeaders } from './send.ts';

/** Where a provider, or the gateway before it, says what became of a dispatch (ops/look-up.md). */
export interface LookUp {
  /** A URL in which `{tag}` stands for the tag of the dispatch. */
  urlTemplate: string;
  /** The provider's key, sent as `x-api-key` and as bearer token. */
  apiKey: string;
}

/** What one look-up says; `unproven` where it says nothing that can be relied on, and why, or `failed`. */
export type LookUpReply =
  | {
      state: 'answered' | 'refused';
      status: number;
      headers: Record<string, string>;
      body: Buffer;
      /** What the other side says it cost: dollars as an exact decimal. */
      costUsd: string | undefined;
    }
  | { state: 'not-received' }
  | { state: 'in-progress'; retryAfterMs: number | undefined }
  | { state: 'unproven'; why: string }
  /** It did not come about this time. */
  | { state: 'failed'; why: string };

/** Total time of one look-up. */
const PATIENCE_MS = 30_000;

/** Asks once what became of the dispatch with this tag. Never throws for what the other side does. */
export async function lookUpDispatch(
  dispatcher: Dispatcher,
  { urlTemplate, apiKey }: LookUp,
  tag: string,
): Promise<LookUpReply> {
  try {
    const response = await request(urlTemplate.replaceAll('{tag}', encodeURIComponent(tag)), {
      dispatcher,
      headers: { 'x-api-key': apiKey, authorization: `Bearer ${apiKey}`, 'accept-encoding': 'identity' },
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const body = Buffer.from(await response.body.arrayBuffer());
    return readReply(response.statusCode, response.headers, body);
  } catch (error) {
    return { state: 'failed', why: `the look-up failed: ${messageOf(error)}` };
  }
}

function readReply(
  httpStatus: number,
  headers: Record<string, string | string[] | undefined>,
  body: Buffer,
): LookUpReply {
  const state = headers['x-dispatch-state'];
  const kept = keptHeaders(headers);
  if (httpStatus !== 200)
    return {
      state: httpStatus >= 500 || httpStatus === 429 ? 'failed' : 'unproven',
      why: `the look-up was answered with HTTP ${httpStatus}`,
    };
  if (state === 'not-received') return { state };
  if (state === 'in-progress') return { state, retryAfterMs: retryAfterMs(kept, new Date()) };
  if (state !== 'answered' && state !== 'refused')
    return { state: 'unproven', why: 'the look-up did not say what became of it' };
  const status = Number(headers['x-dispatch-status']);
  if (!(Number.isInteger(status) && status >= 200 && status <= 599))
    return { state: 'unproven', why: 'the look-up did not say with which status it was answered' };
  const cost = headers['x-dispatch-cost-usd'];
  const costUsd = typeof cost === 'string' && /^\d+(\.\d+)?$/.test(cost) ? cost : undefined;
  return { state, status, headers: kept, body, costUsd };
}

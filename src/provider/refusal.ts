import { errorMessage, errorType } from './event-stream.ts';

/** How a response that is not an answer is treated: tried again, final for this call, or final for the whole batch. */
export interface Refusal {
  kind: 'transient' | 'permanent' | 'credentials';
  message: string;
  /** What the provider asks to wait, in milliseconds; undefined where it does not say. */
  retryAfterMs: number | undefined;
}

const TRANSIENT_STATUS = new Set([408, 409, 429, 500, 502, 503, 504, 529]);
const CREDENTIALS_STATUS = new Set([401, 403]);
const CREDENTIALS_TYPE = new Set(['authentication_error', 'permission_error', 'billing_error']);
const TRANSIENT_TYPE = new Set(['rate_limit_error', 'overloaded_error', 'api_error', 'timeout_error']);

/** Classifies a response with an error status, by Anthropic's documented errors (https://docs.claude.com/en/api/errors). */
export function classifyResponse(status: number, headers: Record<string, string>, body: string): Refusal {
  const message = `HTTP ${status}: ${errorMessage(body)}`;
  const retryAfterMs = retryAfter(headers);
  if (CREDENTIALS_STATUS.has(status) || CREDENTIALS_TYPE.has(errorType(body) ?? ''))
    return { kind: 'credentials', message, retryAfterMs };
  return { kind: TRANSIENT_STATUS.has(status) || status >= 500 ? 'transient' : 'permanent', message, retryAfterMs };
}

/** Classifies an error event inside a stream whose status was 200. */
export function classifyStreamError(event: string): Refusal {
  const type = errorType(event) ?? '';
  const message = `error in the stream: ${errorMessage(event)}`;
  const kind = CREDENTIALS_TYPE.has(type) ? 'credentials' : TRANSIENT_TYPE.has(type) ? 'transient' : 'permanent';
  return { kind, message, retryAfterMs: undefined };
}

function retryAfter(headers: Record<string, string>): number | undefined {
  const seconds = Number(headers['retry-after']);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined;
}

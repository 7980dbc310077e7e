import { errorCode, errorMessage, errorType } from './event-stream.ts';
import { retryAfterMs } from './retry-after.ts';

/** How a response that is not an answer is treated. */
export interface Refusal {
  /** Tried again; final for this call; or final for every call of the batch: credentials, credit, a spending limit. */
  kind: 'transient' | 'permanent' | 'account';
  message: string;
  /** What the provider asks to wait, in milliseconds; undefined where it does not say. */
  retryAfterMs: number | undefined;
}

const TRANSIENT_STATUS = new Set([408, 409, 429, 500, 502, 503, 504, 529]);
const TRANSIENT_TYPE = new Set(['rate_limit_error', 'overloaded_error', 'api_error', 'timeout_error']);
const ACCOUNT_STATUS = new Set([401, 402, 403]);
const ACCOUNT_TYPE = new Set([
  'authentication_error',
  'permission_error',
  'billing_error',
  'insufficient_quota', // OpenAI's, behind a status 429 that looks like a rate limit
  'billing_hard_limit_reached',
  'billing_not_active',
  'credit_balance_too_low',
]);
/** Anthropic says these two with status 400 and the type of a malformed request. */
const ACCOUNT_MESSAGE = /credit balance is too low|reached your specified (API )?usage limits/i;

/** Classifies a response with an error status, by Anthropic's documented errors (https://docs.claude.com/en/api/errors) and OpenAI's. */
export function classifyResponse(
  status: number,
  headers: Record<string, string>,
  body: string,
  now = new Date(),
): Refusal {
  const message = `HTTP ${status}: ${errorMessage(body)}`;
  return { kind: kindOfResponse(status, body), message, retryAfterMs: retryAfterMs(headers, now) };
}

/** Classifies an error event inside a stream whose status was 200. */
export function classifyStreamError(event: string): Refusal {
  const kind = isAboutAccount(event)
    ? 'account'
    : TRANSIENT_TYPE.has(errorType(event) ?? '')
      ? 'transient'
      : 'permanent';
  return { kind, message: `error in the stream: ${errorMessage(event)}`, retryAfterMs: undefined };
}

function kindOfResponse(status: number, body: string): Refusal['kind'] {
  if (ACCOUNT_STATUS.has(status) || isAboutAccount(body)) return 'account';
  return TRANSIENT_STATUS.has(status) || status >= 500 ? 'transient' : 'permanent';
}

/** What the body says counts more than the status, which differs from provider to provider. */
function isAboutAccount(body: string): boolean {
  return (
    ACCOUNT_TYPE.has(errorType(body) ?? '') ||
    ACCOUNT_TYPE.has(errorCode(body) ?? '') ||
    ACCOUNT_MESSAGE.test(errorMessage(body))
  );
}

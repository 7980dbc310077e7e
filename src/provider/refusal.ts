import { EventStreamReader, errorCode, errorMessage, errorType } from './event-stream.ts';
import { whyNoAnswer } from './no-answer.ts';
import { isOnAccountOfLoad } from './rate-limits.ts';
import { retryAfterMs } from './retry-after.ts';

/** Whether a dispatch that brought no answer may appear on the bill all the same. */
export type Charge = 'none' | 'possible';

/** Every way a dispatch can end. Only a refusal says how long to wait, and only what may have been charged says so. */
export type DispatchEnd =
  | { kind: 'completed' }
  /** Nothing left the process: free, and tried again. */
  | { kind: 'not sent'; message: string }
  /** Tried again, after what the provider asks to wait, in milliseconds (undefined where it does not say). `onLoad`: everybody is to slow down. */
  | { kind: 'refused'; charge: Charge; message: string; retryAfterMs: number | undefined; onLoad: boolean }
  /** Something left and nothing came back that tells whether it was answered: may have been charged. */
  | { kind: 'unknown'; message: string }
  /** No repetition will be answered: the request itself is refused. */
  | { kind: 'permanent for task'; charge: Charge; message: string }
  /** No call of this account will be answered until a person acts: credentials, credit, a spending limit. */
  | { kind: 'permanent for batch'; charge: Charge; message: string };

/** What came back for a dispatch. */
export interface Received {
  method: string;
  /** Of the request's URL, without query. */
  path: string;
  /** 0 where no head of a response came. */
  status: number;
  headers: Record<string, string>;
  body: Buffer;
  /** What broke the connection off before the response was whole; undefined where it is whole. */
  brokenBy: string | undefined;
  /** The reader of an event stream that has read `body` already. */
  stream?: EventStreamReader | undefined;
}

const TRANSIENT_STATUS = new Set([408, 409, 425, 429]);
/** A gateway says these when it gave up waiting for a provider that may have been at work on an answer. */
const GAVE_UP_STATUS = new Set([408, 502, 504, 520, 524]);
/** Error types and codes of a passing trouble, for errors without a status of their own. */
const TRANSIENT_WORD = new Set([
  'rate_limit_error',
  'overloaded_error',
  'api_error',
  'timeout_error',
  'rate_limit_exceeded', // OpenAI's
  'server_error',
  'slow_down',
  '408',
  '429',
  '500',
  '502',
  '503',
  '504',
  '529',
]);
const ACCOUNT_STATUS = new Set([401, 402, 403]);
const ACCOUNT_WORD = new Set([
  'authentication_error',
  'permission_error',
  'billing_error',
  'insufficient_quota', // OpenAI's, behind a status 429 that looks like a rate limit
  'billing_hard_limit_reached',
  'billing_not_active',
  'credit_balance_too_low',
  'invalid_api_key',
  'account_deactivated',
  'budget_exceeded', // LiteLLM's, with status 400
  '401',
  '402',
  '403',
]);
/** Anthropic says these two with status 400 and the type of a malformed request. */
const ACCOUNT_MESSAGE = /credit balance is too low|reached your specified (API )?usage limits/i;

/** Classifies what came back, by Anthropic's documented errors (https://docs.claude.com/en/api/errors) and OpenAI's. */
export function classify(received: Received, now = new Date()): DispatchEnd {
  const { status, headers, body, brokenBy } = received;
  if (status === 0) return { kind: 'unknown', message: brokenBy ?? 'no response came' };
  if (status < 200 || status >= 300) return classifyStatus(status, headers, body.toString(), now);
  if (status === 200 && isEventStream(headers)) return classifyStream(received.stream ?? readWhole(body), brokenBy);
  if (brokenBy !== undefined) return { kind: 'unknown', message: brokenBy };
  const problem = whyNoAnswer(received.method, received.path, body);
  if (problem === undefined) return { kind: 'completed' };
  const message = `HTTP ${status} that is no answer: ${problem.words}`;
  return problem.error === undefined ? { kind: 'unknown', message } : classifyError(problem.error, 'possible', message);
}

/** True of a response whose events are passed on as they come. */
export function isEventStream(headers: Record<string, string>): boolean {
  return headers['content-type']?.startsWith('text/event-stream') ?? false;
}

function classifyStatus(status: number, headers: Record<string, string>, body: string, now: Date): DispatchEnd {
  const message = `HTTP ${status}: ${errorMessage(body)}`;
  if (ACCOUNT_STATUS.has(status) || isAboutAccount(body))
    return { kind: 'permanent for batch', charge: 'none', message };
  if (!TRANSIENT_STATUS.has(status) && status < 500) return { kind: 'permanent for task', charge: 'none', message };
  const charge = GAVE_UP_STATUS.has(status) && !errorType(body) ? 'possible' : 'none';
  return {
    kind: 'refused',
    charge,
    message,
    retryAfterMs: retryAfterMs(headers, now),
    onLoad: isOnAccountOfLoad(status),
  };
}

/** A stream whose final event has come is whole, and one with an error event refused, whatever then becomes of its connection. */
function classifyStream(stream: EventStreamReader, brokenBy: string | undefined): DispatchEnd {
  // what was generated before the error may have been charged
  if (stream.error !== undefined)
    return classifyError(
      stream.error,
      stream.hasBegun ? 'possible' : 'none',
      `error in the stream: ${errorMessage(stream.error)}`,
    );
  if (stream.isComplete && stream.hasBegun) return { kind: 'completed' };
  return { kind: 'unknown', message: brokenBy ?? 'the stream ended before its final event' };
}

/** Classifies an error that came with the status of a success: its words are all there is to go by. */
function classifyError(error: string, charge: Charge, message: string): DispatchEnd {
  if (isAboutAccount(error)) return { kind: 'permanent for batch', charge, message };
  const words = [errorType(error), errorCode(error)];
  return words.some((word) => TRANSIENT_WORD.has(word ?? ''))
    ? { kind: 'refused', charge, message, retryAfterMs: undefined, onLoad: isOnAccountOfLoad(200, words) }
    : { kind: 'permanent for task', charge, message };
}

/** What the body says counts more than the status, which differs from provider to provider. */
function isAboutAccount(body: string): boolean {
  return (
    ACCOUNT_WORD.has(errorType(body) ?? '') ||
    ACCOUNT_WORD.has(errorCode(body) ?? '') ||
    ACCOUNT_MESSAGE.test(errorMessage(body))
  );
}

function readWhole(body: Buffer): EventStreamReader {
  const reader = new EventStreamReader();
  reader.push(body);
  return reader;
}

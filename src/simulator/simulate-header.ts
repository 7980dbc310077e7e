import { FAULT_NAMES, type Fault, faultNamed } from './faults.ts';
import { type RetryAfter, retryAfterOf } from './retry-after.ts';

/** What the request header `x-simulate` asks for. */
export type Wishes = {
  fault?: Fault;
  /** The fault strikes only the first request with this body. */
  once: boolean;
  /** For a refusal, as given. */
  retryAfter?: RetryAfter;
  /** In place of the server's own latency. */
  latencyMs?: number;
  /** Length of the answer's text in bytes, in place of a real answer. */
  answerBytes?: number;
};

/** Half of Node's longest string: an answer is quoted once more on its way out. */
const MAX_ANSWER_BYTES = 200_000_000;
const MAX_LATENCY_MS = 86_400_000;

/** Reads `x-simulate`, e.g. `refuse=429,retry-after=2,once`; a string says what is wrong with it. */
export function parseWishes(header: string | undefined): Wishes | string {
  const wishes: Wishes = { once: false };
  for (const part of (header ?? '').split(',').map((text) => text.trim())) {
    if (part !== '' && !grant(part, wishes)) {
      return `x-simulate: "${part}" is not one of ${FAULT_NAMES}, once, retry-after=SECONDS|MSms|SECONDSdate, latency=MS, answer-bytes=N`;
    }
  }
  return wishes;
}

function grant(part: string, wishes: Wishes): boolean {
  const fault = faultNamed(part);
  if (fault) {
    wishes.fault = fault;
    return true;
  }
  if (part === 'once') {
    wishes.once = true;
    return true;
  }
  const [, asked] = /^retry-after=(.+)$/.exec(part) ?? [];
  const retryAfter = asked === undefined ? undefined : retryAfterOf(asked);
  if (retryAfter) {
    wishes.retryAfter = retryAfter;
    return true;
  }
  const [, name, digits] = /^([a-z-]+)=(\d{1,9})$/.exec(part) ?? [];
  return digits !== undefined && grantNumber(name, Number(digits), wishes);
}

function grantNumber(name: string | undefined, value: number, wishes: Wishes): boolean {
  if (name === 'latency' && value <= MAX_LATENCY_MS) wishes.latencyMs = value;
  else if (name === 'answer-bytes' && value <= MAX_ANSWER_BYTES) wishes.answerBytes = value;
  else return false;
  return true;
}

import { FAULT_NAMES, type Fault, faultNamed } from './faults.ts';

/** What the request header `x-simulate` asks for. */
export type Wishes = {
  fault?: Fault;
  /** The fault strikes only the first request with this body. */
  once: boolean;
  /** For the `retry-after` header of a refusal, as given. */
  retryAfterSeconds?: number;
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
      return `x-simulate: "${part}" is not one of ${FAULT_NAMES}, once, retry-after=SECONDS, latency=MS, answer-bytes=N`;
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
  const [, name, digits] = /^([a-z-]+)=(\d{1,9})$/.exec(part) ?? [];
  return digits !== undefined && grantNumber(name, Number(digits), wishes);
}

function grantNumber(name: string | undefined, value: number, wishes: Wishes): boolean {
  if (name === 'retry-after') wishes.retryAfterSeconds = value;
  else if (name === 'latency' && value <= MAX_LATENCY_MS) wishes.latencyMs = value;
  else if (name === 'answer-bytes' && value <= MAX_ANSWER_BYTES) wishes.answerBytes = value;
  else return false;
  return true;
}

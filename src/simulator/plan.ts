import { draw, type FaultShare, faultAt } from './fault-shares.ts';
import type { Fault } from './faults.ts';
import type { RetryAfter } from './retry-after.ts';
import type { Wishes } from './simulate-header.ts';

/** Shortest and longest time until an answer is produced, in milliseconds. */
export type Latency = { readonly minMs: number; readonly maxMs: number };

/** How the whole server behaves towards requests that wish for nothing. */
export type Temper = {
  readonly seed: string;
  readonly latency: Latency;
  readonly faults: readonly FaultShare[];
  /** One of these is drawn for each refusal drawn from `faults`; none is sent where there are none. */
  readonly retryAfters?: readonly RetryAfter[];
  /** More are refused, if given. */
  readonly requestsPerMinute?: number | undefined;
  /** Requests that may come at once; a minute's if not given. */
  readonly burst?: number | undefined;
};

/** What will happen to one request. */
export type Plan = {
  readonly fault: Fault | undefined;
  readonly retryAfter: RetryAfter | undefined;
  readonly latencyMs: number;
  readonly answerBytes: number | undefined;
};

/** The plan for a request whose body came `seen` times before: its wishes first, then the server's temper. */
export function planFor(wishes: Wishes, temper: Temper, requestDigest: string, seen: number): Plan {
  return {
    fault: wishes.fault ? wishedFault(wishes, seen) : drawnFault(temper, requestDigest, seen),
    retryAfter: wishes.retryAfter ?? drawnRetryAfter(temper, requestDigest, seen),
    latencyMs: wishes.latencyMs ?? drawnLatency(temper, requestDigest, seen),
    answerBytes: wishes.answerBytes,
  };
}

function wishedFault(wishes: Wishes, seen: number): Fault | undefined {
  return wishes.once && seen > 0 ? undefined : wishes.fault;
}

function drawnFault({ seed, faults }: Temper, requestDigest: string, seen: number): Fault | undefined {
  return faults.length === 0 ? undefined : faultAt(faults, draw(seed, 'fault', requestDigest, seen));
}

function drawnLatency({ seed, latency: { minMs, maxMs } }: Temper, requestDigest: string, seen: number): number {
  return minMs === maxMs ? minMs : minMs + draw(seed, 'latency', requestDigest, seen) * (maxMs - minMs);
}

function drawnRetryAfter(
  { seed, retryAfters = [] }: Temper,
  requestDigest: string,
  seen: number,
): RetryAfter | undefined {
  return retryAfters[Math.floor(draw(seed, 'retry-after', requestDigest, seen) * retryAfters.length)];
}

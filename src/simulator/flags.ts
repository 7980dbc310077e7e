import { parseFaultShares } from './fault-shares.ts';
import type { Latency } from './plan.ts';
import { parseRetryAfters } from './retry-after.ts';
import type { SimulatorOptions } from './server.ts';
import { SimulatorError } from './simulator-error.ts';

/** The command line's flags as typed, shared by `madrugada simulate-provider` and this folder's `main.ts`. */
export type SimulatorFlags = {
  readonly port?: string | undefined;
  readonly bill?: string | undefined;
  /** `50` or `20-200`, in milliseconds. */
  readonly latencyMs?: string | undefined;
  readonly seed?: string | undefined;
  /** `NAME:SHARE,...`, e.g. `refuse=529:0.1,cut-stream:0.02`. */
  readonly fault?: string | undefined;
  /** A share from 0 to 1, divided among `faultKinds`. */
  readonly faults?: string | undefined;
  /** Names of faults, `NAME,...`; every passing one by default. */
  readonly faultKinds?: string | undefined;
  /** `1,500ms,2date`. */
  readonly retryAfter?: string | undefined;
  readonly requestsPerMinute?: string | undefined;
  readonly burst?: string | undefined;
  readonly arrivals?: string | undefined;
};

export const DEFAULT_BILL = 'provider-bill.jsonl';

/** Checks every flag. Throws SimulatorError naming the flag that is wrong and what it accepts. */
export function optionsFromFlags(flags: SimulatorFlags): SimulatorOptions {
  return {
    port: wholeNumber('--port', flags.port ?? '0', 65_535),
    bill: flags.bill ?? DEFAULT_BILL,
    latency: parseLatency(flags.latencyMs ?? '0'),
    seed: flags.seed ?? '0',
    faults: parseFaultShares(flags.fault, flags.faults, flags.faultKinds),
    retryAfters: flags.retryAfter === undefined ? [] : parseRetryAfters(flags.retryAfter),
    requestsPerMinute:
      flags.requestsPerMinute === undefined ? undefined : atLeastOne('--requests-per-minute', flags.requestsPerMinute),
    burst: flags.burst === undefined ? undefined : atLeastOne('--burst', flags.burst),
    arrivals: flags.arrivals,
  };
}

function parseLatency(text: string): Latency {
  const [min = '', max = min, ...more] = text.split('-');
  const latency = { minMs: wholeNumber('--latency-ms', min), maxMs: wholeNumber('--latency-ms', max) };
  if (more.length > 0 || latency.minMs > latency.maxMs) {
    throw new SimulatorError(`--latency-ms takes MILLISECONDS or MIN-MAX, not "${text}"`);
  }
  return latency;
}

function atLeastOne(flag: string, text: string): number {
  const number = wholeNumber(flag, text);
  if (number === 0) throw new SimulatorError(`${flag} takes a whole number from 1, not "${text}"`);
  return number;
}

function wholeNumber(flag: string, text: string, most = 86_400_000): number {
  if (!/^\d{1,8}$/.test(text) || Number(text) > most) {
    throw new SimulatorError(`${flag} takes a whole number from 0 to ${most}, not "${text}"`);
  }
  return Number(text);
}

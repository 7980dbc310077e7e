import { hash } from 'node:crypto';
import { SimulatorError } from './simulator-error.ts';

/** The statuses a refusal may have, with Anthropic's error type for each. */
export const REFUSAL_TYPES = { 429: 'rate_limit_error', 500: 'api_error', 529: 'overloaded_error' } as const;
export type RefusalStatus = keyof typeof REFUSAL_TYPES;

/** A way to fail after the answer was produced and charged. */
const CHARGED_FAULTS = ['stall-headers', 'stall-body', 'cut-stream', 'charge-and-drop'] as const;
export type ChargedFault = (typeof CHARGED_FAULTS)[number];

/** What goes wrong with one request: a refusal is never charged, everything else always is. */
export type Fault = { readonly kind: 'refuse'; readonly status: RefusalStatus } | { readonly kind: ChargedFault };

/** A fault that strikes this share of all requests, 0 to 1. */
export type FaultShare = { readonly fault: Fault; readonly probability: number };

/** A fault by its name: `refuse` (429), `refuse=529`, `stall-body`, ...; undefined if there is no such fault. */
export function faultNamed(name: string): Fault | undefined {
  const charged = CHARGED_FAULTS.find((kind) => kind === name);
  if (charged) return { kind: charged };
  const [kind, status = '429', ...more] = name.split('=');
  if (kind !== 'refuse' || more.length > 0 || !Object.hasOwn(REFUSAL_TYPES, status)) return undefined;
  return { kind: 'refuse', status: Number(status) as RefusalStatus };
}

/** For messages: every name `faultNamed` accepts. */
export const FAULT_NAMES = ['refuse=429|500|529', ...CHARGED_FAULTS].join(', ');

/** The shares in a flag such as `refuse:0.1,cut-stream:0.02`. Throws SimulatorError naming the part that is wrong. */
export function parseFaultShares(text: string): FaultShare[] {
  const shares = text.split(',').map(parseShare);
  const total = shares.reduce((sum, share) => sum + share.probability, 0);
  if (total > 1 + Number.EPSILON * shares.length) {
    throw new SimulatorError(`the fault shares in "${text}" add up to more than 1; each request has at most one fault`);
  }
  return shares;
}

function parseShare(part: string): FaultShare {
  const [name = '', share = '', ...more] = part.trim().split(':');
  const fault = faultNamed(name);
  const probability = /^(0|1|0?\.\d+|0\.\d+|1\.0+)$/.test(share) ? Number(share) : Number.NaN;
  if (!fault || more.length > 0 || Number.isNaN(probability)) {
    throw new SimulatorError(`"${part}" is not NAME:SHARE with a share from 0 to 1; the names are ${FAULT_NAMES}`);
  }
  return { fault, probability };
}

/**
 * A number in [0, 1) that depends on nothing but its arguments, so that a night with a given seed can be repeated.
 * `seen` counts earlier requests with the same body: a repeated request draws anew.
 */
export function draw(seed: string, purpose: string, requestDigest: string, seen: number): number {
  return Number.parseInt(hash('sha256', `${seed}:${purpose}:${requestDigest}:${seen}`).slice(0, 12), 16) / 2 ** 48;
}

/** The fault that strikes at `point` in [0, 1), when the shares are laid end to end. */
export function faultAt(shares: readonly FaultShare[], point: number): Fault | undefined {
  let end = 0;
  for (const { fault, probability } of shares) {
    end += probability;
    if (point < end) return fault;
  }
  return undefined;
}

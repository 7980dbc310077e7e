import { hash } from 'node:crypto';
import { FAULT_NAMES, type Fault, faultNamed, PASSING_FAULTS } from './faults.ts';
import { SimulatorError } from './simulator-error.ts';

/** A fault that strikes this share of all requests, 0 to 1. */
export type FaultShare = { readonly fault: Fault; readonly probability: number };

/**
 * The shares of the flags: `shares` such as `refuse:0.1,cut-stream:0.02`, and `total` such as `0.2`, which is divided evenly among `kinds`,
 * every passing one by default. Throws SimulatorError naming what is wrong.
 */
export function parseFaultShares(
  shares: string | undefined,
  total: string | undefined,
  kinds: string | undefined,
): FaultShare[] {
  if (kinds !== undefined && total === undefined)
    throw new SimulatorError('--fault-kinds needs --faults, the share of the requests that they strike');
  const all = [...(shares?.split(',').map(parseShare) ?? []), ...(total === undefined ? [] : evenShares(total, kinds))];
  const sum = all.reduce((before, share) => before + share.probability, 0);
  if (sum > 1 + Number.EPSILON * all.length) {
    throw new SimulatorError(
      `the fault shares in "${[shares, total].filter(Boolean).join(' and ')}" add up to more than 1; each request has at most one fault`,
    );
  }
  return all;
}

function evenShares(total: string, kinds: string | undefined): FaultShare[] {
  const faults = kinds === undefined ? PASSING_FAULTS : kinds.split(',').map(parseKind);
  const probability = parseProbability(total);
  if (Number.isNaN(probability)) throw new SimulatorError(`--faults takes a share from 0 to 1, not "${total}"`);
  return faults.map((fault) => ({ fault, probability: probability / faults.length }));
}

function parseKind(name: string): Fault {
  const fault = faultNamed(name.trim());
  if (!fault) throw new SimulatorError(`--fault-kinds: "${name}" is not one of ${FAULT_NAMES}`);
  return fault;
}

function parseShare(part: string): FaultShare {
  const [name = '', share = '', ...more] = part.trim().split(':');
  const fault = faultNamed(name);
  const probability = parseProbability(share);
  if (!fault || more.length > 0 || Number.isNaN(probability)) {
    throw new SimulatorError(`"${part}" is not NAME:SHARE with a share from 0 to 1; the names are ${FAULT_NAMES}`);
  }
  return { fault, probability };
}

function parseProbability(text: string): number {
  return /^(0|1|0?\.\d+|1\.0+)$/.test(text) ? Number(text) : Number.NaN;
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

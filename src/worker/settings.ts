import type { ProviderAccess } from '../agent/task.ts';
import { MadrugadaError } from '../errors.ts';
import { DEFAULT_LIMITS, type Limits } from '../journal/environment.ts';
import type { Tagging } from '../journal/tag.ts';

/** The settings of a worker process that come from its environment. */
export interface WorkerSettings {
  access: ProviderAccess;
  limits: Limits;
  tagging: Tagging;
  hungMs: number;
  stuckMs: number;
  alwaysReplay: boolean;
}

/** Beyond the dispatch deadline a slot that shows no progress is stuck by this much, in milliseconds. */
const STUCK_MARGIN_MS = 300_000;
const HUNG_SECONDS = 120;

/**
 * Reads `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`, `MADRUGADA_DISPATCH_SECONDS` (total time of one dispatch), `MADRUGADA_REST_SECONDS`,
 * `MADRUGADA_MAX_DISPATCHES`, `MADRUGADA_MAX_WAIT_SECONDS`, `MADRUGADA_HUNG_SECONDS`, `MADRUGADA_STUCK_SECONDS`, `MADRUGADA_ALWAYS_REPLAY`,
 * `MADRUGADA_TAG_HEADERS` (names, separated by commas), `MADRUGADA_TAG_LITELLM` and `MADRUGADA_TAG_BODY`.
 */
export function workerSettings(environment: NodeJS.ProcessEnv): WorkerSettings {
  const seconds = (name: string, fallbackMs: number) => number(environment, name, fallbackMs / 1000) * 1000;
  const limits: Limits = {
    dispatchMs: seconds('MADRUGADA_DISPATCH_SECONDS', DEFAULT_LIMITS.dispatchMs),
    restMs: seconds('MADRUGADA_REST_SECONDS', DEFAULT_LIMITS.restMs),
    maxDispatches: number(environment, 'MADRUGADA_MAX_DISPATCHES', DEFAULT_LIMITS.maxDispatches),
    maxWaitMs: seconds('MADRUGADA_MAX_WAIT_SECONDS', DEFAULT_LIMITS.maxWaitMs),
  };
  return {
    access: { apiKey: apiKey(environment), baseUrl: environment.ANTHROPIC_BASE_URL || undefined },
    limits,
    tagging: tagging(environment),
    hungMs: seconds('MADRUGADA_HUNG_SECONDS', HUNG_SECONDS * 1000),
    stuckMs: seconds('MADRUGADA_STUCK_SECONDS', limits.dispatchMs + STUCK_MARGIN_MS),
    alwaysReplay: environment.MADRUGADA_ALWAYS_REPLAY === '1',
  };
}

function apiKey(environment: NodeJS.ProcessEnv): string {
  const key = environment.ANTHROPIC_API_KEY;
  if (!key)
    throw new MadrugadaError(
      'ANTHROPIC_API_KEY is not set: set it, or use --simulate to run against the simulated provider for free',
    );
  return key;
}

/** As RFC 9110 spells a name. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
/** What the request cannot do without. */
const TAKEN_HEADERS =
  /^(authorization|x-api-key|anthropic-.*|content-.*|accept|accept-encoding|host|connection|transfer-encoding|cookie)$/;

function tagging(environment: NodeJS.ProcessEnv): Tagging {
  const headers = (environment.MADRUGADA_TAG_HEADERS ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '');
  for (const name of headers)
    if (!HEADER_NAME.test(name) || TAKEN_HEADERS.test(name))
      throw new MadrugadaError(
        `MADRUGADA_TAG_HEADERS: "${name}" cannot carry a tag; name headers that your gateway logs, such as x-request-tag`,
      );
  return {
    headers,
    litellm: environment.MADRUGADA_TAG_LITELLM === '1',
    body: environment.MADRUGADA_TAG_BODY === '1',
  };
}

function number(environment: NodeJS.ProcessEnv, name: string, fallback: number): number {
  const text = environment[name];
  if (text === undefined || text === '') return fallback;
  const value = Number(text);
  if (!(value > 0)) throw new MadrugadaError(`${name} must be a number greater than 0, not "${text}"`);
  return value;
}

import type { ProviderAccess } from '../agent/task.ts';
import { type AlertChannels, alertChannels } from '../batch/alert-channels.ts';
import { MadrugadaError } from '../errors.ts';
import { DEFAULT_LIMITS, type Limits } from '../journal/environment.ts';
import type { LookUp } from '../journal/look-up.ts';
import type { Tagging } from '../journal/tag.ts';

/** The settings of a worker process that come from its environment. */
export interface WorkerSettings {
  access: ProviderAccess;
  limits: Limits;
  lookUp: LookUp | undefined;
  tagging: Tagging;
  hungMs: number;
  stuckMs: number;
  alwaysReplay: boolean;
  alertChannels: AlertChannels;
}

/** A slot that shows no progress for this much longer than one dispatch, or one wait for a provider, may take is stuck, in milliseconds. */
const STUCK_MARGIN_MS = 300_000;
const HUNG_SECONDS = 120;

/**
 * Reads `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`, `MADRUGADA_DISPATCH_SECONDS` (total time of one dispatch), `MADRUGADA_HEADERS_SECONDS`,
 * `MADRUGADA_IDLE_SECONDS`, `MADRUGADA_REST_SECONDS`, `MADRUGADA_MAX_DISPATCHES`, `MADRUGADA_CALL_SECONDS`,
 * `MADRUGADA_RETRY_AFTER_CAP_SECONDS`, `MADRUGADA_MAX_WAIT_SECONDS`, `MADRUGADA_MAX_IDENTICAL_CALLS`, `MADRUGADA_HUNG_SECONDS`, `MADRUGADA_STUCK_SECONDS`,
 * `MADRUGADA_LOOK_UP`, `MADRUGADA_ALWAYS_REPLAY` and where alerts go (alertChannels);
 * `MADRUGADA_TAG_HEADERS` (names, separated by commas), `MADRUGADA_TAG_LITELLM` and `MADRUGADA_TAG_BODY`.
 */
export function workerSettings(environment: NodeJS.ProcessEnv): WorkerSettings {
  const seconds = (name: string, fallbackMs: number) => number(environment, name, fallbackMs / 1000) * 1000;
  const dispatchMs = seconds('MADRUGADA_DISPATCH_SECONDS', DEFAULT_LIMITS.dispatchMs);
  const limits: Limits = {
    dispatchMs,
    headersMs: seconds('MADRUGADA_HEADERS_SECONDS', dispatchMs),
    idleMs: seconds('MADRUGADA_IDLE_SECONDS', DEFAULT_LIMITS.idleMs),
    restMs: seconds('MADRUGADA_REST_SECONDS', DEFAULT_LIMITS.restMs),
    maxDispatches: number(environment, 'MADRUGADA_MAX_DISPATCHES', DEFAULT_LIMITS.maxDispatches),
    callMs: seconds('MADRUGADA_CALL_SECONDS', DEFAULT_LIMITS.callMs),
    retryAfterCapMs: seconds('MADRUGADA_RETRY_AFTER_CAP_SECONDS', DEFAULT_LIMITS.retryAfterCapMs),
    maxWaitMs: seconds('MADRUGADA_MAX_WAIT_SECONDS', DEFAULT_LIMITS.maxWaitMs),
    maxIdenticalCalls: number(environment, 'MADRUGADA_MAX_IDENTICAL_CALLS', DEFAULT_LIMITS.maxIdenticalCalls),
  };
  const access = { apiKey: apiKey(environment), baseUrl: environment.ANTHROPIC_BASE_URL || undefined };
  return {
    access,
    limits,
    lookUp: lookUp(environment.MADRUGADA_LOOK_UP, access),
    tagging: tagging(environment),
    hungMs: seconds('MADRUGADA_HUNG_SECONDS', HUNG_SECONDS * 1000),
    stuckMs: seconds('MADRUGADA_STUCK_SECONDS', Math.max(limits.dispatchMs, limits.maxWaitMs) + STUCK_MARGIN_MS),
    alertChannels: alertChannels(environment),
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

/** The tag must be asked for at one host, in what is sent to it: the provider's key goes with it. */
function lookUp(urlTemplate: string | undefined, { apiKey }: ProviderAccess): LookUp | undefined {
  if (!urlTemplate) return undefined;
  const url = URL.parse(urlTemplate.replaceAll('{tag}', EXAMPLE_TAG));
  const isUsable =
    url !== null &&
    /^https?:$/.test(url.protocol) &&
    (url.pathname + url.search).includes(EXAMPLE_TAG) &&
    !url.host.includes(EXAMPLE_TAG) &&
    url.username + url.password === '';
  if (!isUsable)
    throw new MadrugadaError(
      `MADRUGADA_LOOK_UP must be a URL of http or https, without user and password, with {tag} in its path or query for the tag of a dispatch, not "${urlTemplate.replace(/\/\/[^/]*@/, '//…@')}"`,
    );
  return { urlTemplate, apiKey };
}

const EXAMPLE_TAG = '0123456789abcdef';

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

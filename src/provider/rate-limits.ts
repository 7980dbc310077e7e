/** Tokens an account may use in a minute, and what is left of them; undefined where it is not said. */
export interface TokenLimit {
  limit: number;
  remaining: number | undefined;
}

/** What a response's headers announce of its account's limits; what they do not say, or not as a whole number that can be meant, is missing. */
export interface Announced {
  /** Requests a minute; null: what is said of requests sets no pace. */
  requests?: number | null;
  input?: TokenLimit;
  output?: TokenLimit;
  /** Of input and output together. */
  tokens?: TokenLimit;
}

/**
 * Reads the limits of Anthropic's headers (https://platform.claude.com/docs/en/api/rate-limits#response-headers) and of OpenAI's
 * (https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers), which other providers and gateways copy.
 */
export function announcedLimits(headers: Record<string, string>): Announced {
  const requests = requestsPerMinute(headers);
  const input = tokenLimit(
    headers,
    'anthropic-ratelimit-input-tokens-limit',
    'anthropic-ratelimit-input-tokens-remaining',
  );
  const output = tokenLimit(
    headers,
    'anthropic-ratelimit-output-tokens-limit',
    'anthropic-ratelimit-output-tokens-remaining',
  );
  const tokens =
    tokenLimit(headers, 'anthropic-ratelimit-tokens-limit', 'anthropic-ratelimit-tokens-remaining') ??
    (isOfMinute(headers['x-ratelimit-reset-tokens'])
      ? tokenLimit(headers, 'x-ratelimit-limit-tokens', 'x-ratelimit-remaining-tokens')
      : undefined);
  return {
    ...(requests !== undefined && { requests }),
    ...(input && { input }),
    ...(output && { output }),
    ...(tokens && { tokens }),
  };
}

/** Whether reading a prompt from the cache counts as input: with Anthropic it does not, with OpenAI it does (same pages). */
export function countsCacheReads(headers: Record<string, string>): boolean {
  return !Object.keys(headers).some((name) => name.startsWith('anthropic-ratelimit-'));
}

const MINUTES_OF_DAY = 24 * 60;

/**
 * OpenAI does not say whether its limit of requests is for a minute or for a day, but when it is whole again: of a minute's limit that is
 * never more than a minute away, so one that is further off is a day's. A day's limit with something left says nothing of how many may go
 * out in this minute, and would slow a night down to its average: it sets no pace. With nothing left, it comes back at that average, and
 * that is the pace then.
 */
function requestsPerMinute(headers: Record<string, string>): number | null | undefined {
  const anthropic = whole(headers['anthropic-ratelimit-requests-limit']);
  if (anthropic) return anthropic;
  const limit = whole(headers['x-ratelimit-limit-requests']);
  if (!limit) return undefined;
  if (isOfMinute(headers['x-ratelimit-reset-requests'])) return limit;
  return whole(headers['x-ratelimit-remaining-requests']) === 0 ? limit / MINUTES_OF_DAY : null;
}

/** With a second for what rounding adds. One that does not say is taken for a minute's. */
function isOfMinute(reset: string | undefined): boolean {
  const ms = durationMs(reset);
  return ms === undefined || ms <= 61_000;
}

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 24 * 3_600_000 };

/** A duration as OpenAI spells it, `6m0s` or `12ms`; one without a unit is of seconds. */
function durationMs(text = ''): number | undefined {
  const said = text.trim();
  if (/^\d+(\.\d+)?$/.test(said)) return Number(said) * 1_000;
  if (!/^(\d+(\.\d+)?(ms|[smhd]))+$/.test(said)) return undefined;
  const parts = said.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g);
  return [...parts].reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (UNIT_MS[unit] ?? 0), 0);
}

function tokenLimit(headers: Record<string, string>, limitName: string, remainingName: string): TokenLimit | undefined {
  const limit = whole(headers[limitName]);
  return limit ? { limit, remaining: whole(headers[remainingName]) } : undefined;
}

/** More digits cannot be meant. */
function whole(text: string | undefined): number | undefined {
  const said = text?.trim() ?? '';
  return /^\d{1,10}$/.test(said) ? Number(said) : undefined;
}

/** Statuses by which a provider asks everybody to slow down, not only the one it answers. */
const LOAD_STATUS = new Set([429, 503, 529]);
/** The types and codes by which it does so inside a response that has begun with the status of a success; gateways give a status. */
const LOAD_WORDS = new Set([
  'rate_limit_error',
  'overloaded_error',
  'rate_limit_exceeded',
  'slow_down',
  '429',
  '503',
  '529',
]);

/** Whether a refusal is on account of load. `words`: the type and the code of its error. */
export function isOnAccountOfLoad(status: number, words: (string | undefined)[] = []): boolean {
  return LOAD_STATUS.has(status) || (status < 300 && words.some((word) => LOAD_WORDS.has(word ?? '')));
}

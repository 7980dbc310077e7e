/** Anthropic's and OpenAI's headers for the requests an account may make in a minute. */
const LIMIT_HEADERS = ['anthropic-ratelimit-requests-limit', 'x-ratelimit-limit-requests'];

/** The requests a minute that a response's headers announce; undefined where they do not, or not as a whole number that can be meant. */
export function requestsPerMinute(headers: Record<string, string>): number | undefined {
  const announced = LIMIT_HEADERS.map((name) => headers[name]?.trim()).find((value) => value);
  if (announced === undefined || !/^\d{1,8}$/.test(announced)) return undefined;
  return Number(announced) || undefined;
}

/** Statuses by which a provider asks everybody to slow down, not only the one it answers. */
const LOAD_STATUS = new Set([429, 503, 529]);

/** Whether a refusal is on account of load. */
export function isOnAccountOfLoad(status: number): boolean {
  return LOAD_STATUS.has(status);
}

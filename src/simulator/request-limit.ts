import type { ServerResponse } from 'node:http';

const MINUTE_MS = 60_000;

/**
 * A limit of requests per minute as Anthropic enforces it: a bucket that is refilled continuously. It holds a minute's requests, or `burst` of
 * them: a short interval has its own share of the minute's limit.
 */
export class RequestLimit {
  readonly #perMinute: number;
  readonly #burst: number;
  readonly #now: () => number;
  #tokens: number;
  #filledAt: number;

  /** `now`: a clock in milliseconds since the epoch. */
  constructor(perMinute: number, burst = perMinute, now: () => number = Date.now) {
    this.#perMinute = perMinute;
    this.#burst = burst;
    this.#now = now;
    this.#tokens = burst;
    this.#filledAt = now();
  }

  /**
   * Counts one request and announces the limit in the headers of its response. Returns undefined if it is within the limit, otherwise the
   * whole seconds until the next one is.
   */
  admit(response: Pick<ServerResponse, 'setHeader'>): number | undefined {
    const now = this.#now();
    const refilled = ((now - this.#filledAt) * this.#perMinute) / MINUTE_MS;
    this.#tokens = Math.min(this.#burst, this.#tokens + refilled);
    this.#filledAt = now;
    const isWithin = this.#tokens >= 1;
    if (isWithin) this.#tokens -= 1;
    response.setHeader('anthropic-ratelimit-requests-limit', String(this.#perMinute));
    response.setHeader('anthropic-ratelimit-requests-remaining', String(Math.floor(this.#tokens)));
    const full = new Date(now + this.#msUntil(this.#burst));
    response.setHeader('anthropic-ratelimit-requests-reset', full.toISOString());
    return isWithin ? undefined : Math.ceil(this.#msUntil(1) / 1000);
  }

  #msUntil(tokens: number): number {
    return ((tokens - this.#tokens) * MINUTE_MS) / this.#perMinute;
  }
}

/** The limits of one account: each model has its own, as at Anthropic. */
export class RequestLimits {
  readonly #ofModel = new Map<string, RequestLimit>();
  readonly #perMinute: number;
  readonly #burst: number | undefined;

  constructor(perMinute: number, burst: number | undefined) {
    this.#perMinute = perMinute;
    this.#burst = burst;
  }

  /** As RequestLimit's, for a request for `model`. */
  admit(model: string, response: Pick<ServerResponse, 'setHeader'>): number | undefined {
    const limit = this.#ofModel.get(model) ?? new RequestLimit(this.#perMinute, this.#burst);
    this.#ofModel.set(model, limit);
    return limit.admit(response);
  }
}

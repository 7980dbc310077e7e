import type { ServerResponse } from 'node:http';

const MINUTE_MS = 60_000;

/** A limit of requests per minute as Anthropic enforces it: a bucket that holds a minute's requests and is refilled continuously. */
export class RequestLimit {
  readonly #perMinute: number;
  readonly #now: () => number;
  #tokens: number;
  #filledAt: number;

  /** `now`: a clock in milliseconds since the epoch. */
  constructor(perMinute: number, now: () => number = Date.now) {
    this.#perMinute = perMinute;
    this.#now = now;
    this.#tokens = perMinute;
    this.#filledAt = now();
  }

  /**
   * Counts one request and announces the limit in the headers of its response. Returns undefined if it is within the limit, otherwise the
   * whole seconds until the next one is.
   */
  admit(response: Pick<ServerResponse, 'setHeader'>): number | undefined {
    const now = this.#now();
    const refilled = ((now - this.#filledAt) * this.#perMinute) / MINUTE_MS;
    this.#tokens = Math.min(this.#perMinute, this.#tokens + refilled);
    this.#filledAt = now;
    const isWithin = this.#tokens >= 1;
    if (isWithin) this.#tokens -= 1;
    response.setHeader('anthropic-ratelimit-requests-limit', String(this.#perMinute));
    response.setHeader('anthropic-ratelimit-requests-remaining', String(Math.floor(this.#tokens)));
    const full = new Date(now + this.#msUntil(this.#perMinute));
    response.setHeader('anthropic-ratelimit-requests-reset', full.toISOString());
    return isWithin ? undefined : Math.ceil(this.#msUntil(1) / 1000);
  }

  #msUntil(tokens: number): number {
    return ((tokens - this.#tokens) * MINUTE_MS) / this.#perMinute;
  }
}

import Big from 'big.js';
import type { Usage } from './usage.ts';

/** Dollars per million tokens of one model from a date on. */
export interface ModelPrice {
  model: string;
  validFrom: Date;
  input: Big;
  output: Big;
  cacheRead: Big;
  cacheWrite5m: Big;
  cacheWrite1h: Big;
}

const MILLION = new Big(1_000_000);

/** The prices of all known models; one per process, read from table `model_price` at its start. */
export class PriceBook {
  readonly #prices: readonly ModelPrice[];

  constructor(prices: readonly ModelPrice[]) {
    this.#prices = [...prices].sort((a, b) => b.validFrom.getTime() - a.validFrom.getTime());
  }

  /**
   * The exact cost in dollars of an answer, or undefined where the model's price is not known. A dated model name
   * (`claude-haiku-4-5-20251001`) has the price of its undated one.
   */
  costOf(model: string, usage: Usage, at: Date): Big | undefined {
    const price = this.#find(model, at) ?? this.#find(model.replace(/-\d{8}$/, ''), at);
    if (price === undefined) return undefined;
    return price.input
      .times(usage.inputTokens)
      .plus(price.output.times(usage.outputTokens))
      .plus(price.cacheRead.times(usage.cacheReadTokens))
      .plus(price.cacheWrite5m.times(usage.cacheWrite5mTokens))
      .plus(price.cacheWrite1h.times(usage.cacheWrite1hTokens))
      .div(MILLION);
  }

  worstCaseOf(
    request: { method: string; path: string; body: Uint8Array },
    model: string | undefined,
    at: Date,
  ): { usd: Big } | { problem: string } {
    const price = this.#find(model ?? '', at);
    if (price === undefined) return { usd: new Big(0) };
    const most = /"max_tokens":(\d+)/.exec(Buffer.from(request.body).toString())?.[1] ?? '0';
    return {
      usd: price.input
        .times(2 * request.body.length)
        .plus(price.output.times(most))
        .div(MILLION),
    };
  }

  #find(model: string, at: Date): ModelPrice | undefined {
    return this.#prices.find((price) => price.model === model && price.validFrom <= at);
  }
}

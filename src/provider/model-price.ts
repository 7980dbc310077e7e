import Big from 'big.js';

/** Dollars per million tokens of one request, by kind. */
export interface TokenPrices {
  input: Big;
  output: Big;
  cacheRead: Big;
  cacheWrite5m: Big;
  cacheWrite1h: Big;
}

/** The prices that hold for the whole of a request with more input than `aboveInputTokens`, cache reads and writes included. */
export interface PriceBand extends TokenPrices {
  aboveInputTokens: number;
}

/** What one model costs from a date on. */
export interface ModelPrice {
  model: string;
  validFrom: Date;
  /** It came with the program: it counts only where no person has given a price for the model. */
  builtIn: boolean;
  /** The first is for any request (`aboveInputTokens` 0); ascending. */
  bands: readonly [PriceBand, ...PriceBand[]];
  /** What all tokens are multiplied by, by tier or mode: `batch`, `priority`, `us`, `fast`. One without a factor has no price. */
  factors: ReadonlyMap<string, Big>;
  /** Dollars per 1,000 uses of the provider's own tools, by name: `web_search`. One without a fee has no price. */
  serverToolsPer1000: ReadonlyMap<string, Big>;
  contextTokens: number | undefined;
  maxOutputTokens: number | undefined;
}

/** The band of a request with so many input tokens of all kinds. */
export function bandFor(price: ModelPrice, inputTokens: number): PriceBand {
  return price.bands.findLast((band) => inputTokens > band.aboveInputTokens) ?? price.bands[0];
}

/** The largest of some prices or factors; 0 of none. */
export function largest(prices: readonly Big[]): Big {
  return prices.reduce((most, price) => (price.gt(most) ? price : most), new Big(0));
}

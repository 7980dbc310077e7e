import Big from 'big.js';
import { bandFor, type ModelPrice } from './model-price.ts';
import { priceLine } from './price-line.ts';
import type { Usage } from './usage.ts';
import { isFreeRequest, type PricedRequest, type WorstCase, worstCaseAt } from './worst-case.ts';

const MILLIONTH = new Big('0.000001');
const THOUSANDTH = new Big('0.001');

/** The prices of all known models; one per process, read from table `model_price` at its start. */
export class PriceBook {
  readonly #prices: ReadonlyMap<string, readonly ModelPrice[]>;

  constructor(prices: readonly ModelPrice[]) {
    // of a person before built in, later before earlier: the first that is valid counts (db/migrations/0011_prices.sql)
    const ranked = [...prices].sort(
      (a, b) => Number(a.builtIn) - Number(b.builtIn) || b.validFrom.getTime() - a.validFrom.getTime(),
    );
    this.#prices = Map.groupBy(ranked, ({ model }) => model);
  }

  /**
   * The exact cost in dollars of an answer. Undefined where it is not known: no price of the model then, no factor for the tier or mode
   * it was served in, or no fee for a tool it used. That is not free, nor is it the standard price.
   */
  costOf(model: string, usage: Usage, at: Date): Big | undefined {
    const price = this.#find(model, at);
    if (price === undefined) return undefined;
    const factor = product(usage.modes.map((mode) => price.factors.get(mode)));
    const fees = Object.entries(usage.serverToolUses).map(([tool, uses]) =>
      price.serverToolsPer1000.get(tool)?.times(uses).times(THOUSANDTH),
    );
    if (factor === undefined || !fees.every((fee) => fee !== undefined)) return undefined;
    return fees.reduce((sum, fee) => sum.plus(fee), tokenCost(price, usage).times(factor));
  }

  /**
   * The most that a request can cost in dollars, and the most input and output it can have: what is set aside before it is sent. A `problem` says why
   * there is no such figure, and what to do about it.
   */
  worstCaseOf(request: PricedRequest, model: string | undefined, at: Date): WorstCase {
    if (isFreeRequest(request)) return { usd: new Big(0), inputTokens: 0, outputTokens: 0 };
    if (model === undefined)
      return { problem: `${request.method} ${request.path} names no model, so what it may cost is not known` };
    const price = this.#find(model, at);
    return price === undefined ? { problem: unknownPrice(model, at) } : worstCaseAt(price, request);
  }

  /** The most output tokens that a model writes for one request; undefined where it is not known. */
  mostOutputOf(model: string, at: Date): number | undefined {
    return this.#find(model, at)?.maxOutputTokens;
  }

  /** Why what a model costs cannot be said, and what to do about it; undefined where it can. */
  problemOf(model: string, at: Date): string | undefined {
    return this.#find(model, at) === undefined ? unknownPrice(model, at) : undefined;
  }

  #find(model: string, at: Date): ModelPrice | undefined {
    for (const name of spellings(model)) {
      const price = this.#prices.get(name)?.find(({ validFrom }) => validFrom <= at);
      if (price !== undefined) return price;
    }
    return undefined;
  }
}

function unknownPrice(model: string, at: Date): string {
  return (
    `the price of model ${model} is not known. Put this line, with its prices in dollars per million tokens, into a file, ` +
    `and run madrugada price load FILE --by WHO: ${priceLine(model, at)}`
  );
}

/**
 * The names under which a model's price may stand: as it is spelled; without the date of its snapshot (`claude-haiku-4-5-20251001`,
 * `gpt-5-2025-08-07`), which costs the same where no price of its own is given; and without the provider that LiteLLM puts before it
 * (https://docs.litellm.ai/docs/providers/anthropic). Clouds with prices of their own (`us.anthropic.…`) are other models.
 */
function spellings(model: string): string[] {
  const undated = (name: string) => name.replace(/-(\d{8}|\d{4}-\d{2}-\d{2})$/, '');
  const bare = model.replace(/^(anthropic|openai)\//, '');
  return [...new Set([model, undated(model), bare, undated(bare)])];
}

function tokenCost(price: ModelPrice, usage: Usage): Big {
  const { cacheReadTokens, cacheWrite5mTokens, cacheWrite1hTokens } = usage;
  const band = bandFor(price, usage.inputTokens + cacheReadTokens + cacheWrite5mTokens + cacheWrite1hTokens);
  return band.input
    .times(usage.inputTokens)
    .plus(band.output.times(usage.outputTokens))
    .plus(band.cacheRead.times(cacheReadTokens))
    .plus(band.cacheWrite5m.times(cacheWrite5mTokens))
    .plus(band.cacheWrite1h.times(cacheWrite1hTokens))
    .times(MILLIONTH);
}

function product(factors: readonly (Big | undefined)[]): Big | undefined {
  return factors.reduce<Big | undefined>((all, factor) => factor && all?.times(factor), new Big(1));
}

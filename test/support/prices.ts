import Big from 'big.js';
import type { ModelPrice } from '../../src/provider/model-price.ts';
import type { Usage } from '../../src/provider/usage.ts';

/** A price of dollars per million tokens; what is not given follows from `input` as it does with Anthropic. */
export function priceOf(
  model: string,
  validFrom: string,
  input: string,
  differing: Partial<Omit<ModelPrice, 'model'>> & { output?: string } = {},
): ModelPrice {
  const { output = new Big(input).times(5).toFixed(), ...others } = differing;
  return {
    model,
    validFrom: new Date(validFrom),
    builtIn: false,
    bands: [band(0, input, output)],
    factors: new Map(),
    serverToolsPer1000: new Map(),
    contextTokens: undefined,
    maxOutputTokens: undefined,
    ...others,
  };
}

export function band(aboveInputTokens: number, input: string, output: string): ModelPrice['bands'][0] {
  return {
    aboveInputTokens,
    input: new Big(input),
    output: new Big(output),
    cacheRead: new Big(input).times('0.1'),
    cacheWrite5m: new Big(input).times('1.25'),
    cacheWrite1h: new Big(input).times(2),
  };
}

/** What an answer used; all that is not given is none, in the standard way. */
export function used(counts: Partial<Usage>): Usage {
  return {
    inputTokens: 0,
    outputTokens: 0,
    cacheReadTokens: 0,
    cacheWrite5mTokens: 0,
    cacheWrite1hTokens: 0,
    modes: [],
    serverToolUses: {},
    ...counts,
  };
}

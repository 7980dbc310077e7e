import Big from 'big.js';
import { z } from 'zod';
import { MadrugadaError } from '../errors.ts';
import type { ModelPrice, PriceBand } from './model-price.ts';
import anthropic from './prices/anthropic.json' with { type: 'json' };
import openai from './prices/openai.json' with { type: 'json' };

/** Text, because a JSON number is a float before anybody can ask. */
const decimal = z.string().regex(/^\d+(\.\d+)?$/, 'a decimal in quotes, such as "0.25"');
const tokens = {
  input: decimal,
  output: decimal,
  cache_read: decimal,
  cache_write_5m: decimal,
  cache_write_1h: decimal,
};
const count = z.int().positive();

const priceSchema = z.strictObject({
  valid_from: z.iso.date(),
  /** For people: such as where the date is from. */
  comment: z.string().optional(),
  ...tokens,
  /** Prices of the whole of a request with more input tokens. */
  above: z.array(z.strictObject({ input_tokens: count, ...tokens })).default([]),
  factors: z.record(z.string(), decimal).default({}),
  server_tools_per_1000: z.record(z.string(), decimal).default({}),
});

const listSchema = z.strictObject({
  source: z.string().optional(),
  comment: z.string().optional(),
  models: z
    .array(
      z.strictObject({
        model: z.string().min(1),
        context_tokens: count.optional(),
        max_output_tokens: count.optional(),
        prices: z.array(priceSchema).min(1),
      }),
    )
    .min(1),
});

type Listed = z.infer<typeof listSchema>['models'][number];
type ListedTokens = Record<keyof typeof tokens, string>;

/** The prices of a list. Throws a MadrugadaError that names `file` and each place that is wrong. */
export function readPriceList(json: unknown, file: string, builtIn: boolean): ModelPrice[] {
  const result = listSchema.safeParse(json);
  if (result.success) return result.data.models.flatMap((listed) => pricesOf(listed, builtIn));
  const problems = result.error.issues.map(({ path, message }) => [path.map(String).join('.'), message].join(': '));
  throw new MadrugadaError(`${file}: ${problems.join('; ')}`);
}

/** The lists that come with the program, as the providers have published them. */
export function builtInPrices(): ModelPrice[] {
  return [
    ...readPriceList(anthropic, 'prices/anthropic.json', true),
    ...readPriceList(openai, 'prices/openai.json', true),
  ];
}

function pricesOf({ model, context_tokens, max_output_tokens, prices }: Listed, builtIn: boolean): ModelPrice[] {
  return prices.map((price) => ({
    model,
    validFrom: new Date(`${price.valid_from}T00:00:00Z`),
    builtIn,
    bands: [
      bandOf(0, price),
      ...price.above
        .toSorted((a, b) => a.input_tokens - b.input_tokens)
        .map((above) => bandOf(above.input_tokens, above)),
    ],
    factors: decimals(price.factors),
    serverToolsPer1000: decimals(price.server_tools_per_1000),
    contextTokens: context_tokens,
    maxOutputTokens: max_output_tokens,
  }));
}

function bandOf(aboveInputTokens: number, listed: ListedTokens): PriceBand {
  return {
    aboveInputTokens,
    input: new Big(listed.input),
    output: new Big(listed.output),
    cacheRead: new Big(listed.cache_read),
    cacheWrite5m: new Big(listed.cache_write_5m),
    cacheWrite1h: new Big(listed.cache_write_1h),
  };
}

function decimals(texts: Record<string, string>): Map<string, Big> {
  return new Map(Object.entries(texts).map(([name, text]) => [name, new Big(text)]));
}

import Big from 'big.js';
import { z } from 'zod';
import { MadrugadaError } from '../errors.ts';
import type { ModelPrice, Rates } from './model-price.ts';

const decimal = z
  .string()
  // ten places: every product with a count of tokens and a thousandth stays exact
  .regex(/^\d{1,9}(\.\d{1,10})?$/, 'must be a decimal in quotes, such as "3.75": dollars are never a float')
  .transform((text) => new Big(text));
const tokens = z.int().positive();

const rates = {
  input: decimal,
  output: decimal,
  cache_read: decimal,
  cache_write_5m: decimal,
  cache_write_1h: decimal,
};

/** What a price says besides its five rates; the form of column `model_price.terms`. */
export const priceTerms = z.strictObject({
  long_prompt: z.strictObject({ above_input_tokens: tokens, ...rates }).optional(),
  factors: z.record(z.string(), decimal).optional(),
  server_tools_per_1000: z.record(z.string(), decimal).optional(),
  context_tokens: tokens.optional(),
  max_output_tokens: tokens.optional(),
  source: z.string().optional(),
});

const day = z.iso.date('must be a day, such as "2026-12-01"').transform((text) => new Date(`${text}T00:00:00Z`));

const modelPrices = z.strictObject({
  context_tokens: tokens.optional(),
  max_output_tokens: tokens.optional(),
  prices: z
    .array(
      z.strictObject({
        valid_from: day,
        ...rates,
        ...priceTerms.pick({ long_prompt: true, factors: true, server_tools_per_1000: true }).shape,
      }),
    )
    .min(1),
});

const priceList = z.strictObject({ source: z.url(), models: z.record(z.string().min(1), modelPrices) });

/** Reads a list of prices; `file` names it in errors, which say the place of every mistake. */
export function parsePriceList(json: unknown, file: string): ModelPrice[] {
  const result = priceList.safeParse(json);
  if (!result.success) throw new MadrugadaError(mistakes(file, result.error));
  return Object.entries(result.data.models).flatMap(([model, { prices, ...limits }]) => {
    const days = new Set(prices.map((price) => price.valid_from.getTime()));
    if (days.size < prices.length)
      throw new MadrugadaError(`${file}, models.${model}.prices: two prices are valid from the same day; keep one`);
    return prices.map(({ valid_from, ...price }) => ({
      model,
      validFrom: valid_from,
      ...ratesOf(price),
      ...termsOf({ ...price, ...limits }),
    }));
  });
}

/** The parts of a price that its terms state. */
export function termsOf(terms: Omit<z.infer<typeof priceTerms>, 'source'>): Partial<ModelPrice> {
  const { long_prompt, factors, server_tools_per_1000, context_tokens, max_output_tokens } = terms;
  return {
    ...(long_prompt && { longPrompt: { aboveInputTokens: long_prompt.above_input_tokens, ...ratesOf(long_prompt) } }),
    ...(factors && { factors }),
    ...(server_tools_per_1000 && { toolFees: server_tools_per_1000 }),
    ...(context_tokens !== undefined && { contextTokens: context_tokens }),
    ...(max_output_tokens !== undefined && { maxOutputTokens: max_output_tokens }),
  };
}

/** What to add to a list of prices for a model that it lacks. */
export function entryToAdd(model: string): string {
  const dollars = '…';
  return JSON.stringify({
    [model]: {
      context_tokens: 200000,
      max_output_tokens: 64000,
      prices: [
        {
          valid_from: '2025-01-01',
          input: dollars,
          output: dollars,
          cache_read: dollars,
          cache_write_5m: dollars,
          cache_write_1h: dollars,
        },
      ],
    },
  });
}

function ratesOf(stated: Record<keyof typeof rates, Big>): Rates {
  return {
    input: stated.input,
    output: stated.output,
    cacheRead: stated.cache_read,
    cacheWrite5m: stated.cache_write_5m,
    cacheWrite1h: stated.cache_write_1h,
  };
}

function mistakes(file: string, error: z.ZodError): string {
  return error.issues.map(({ path, message }) => `${file}, ${path.join('.') || 'at its top'}: ${message}`).join('\n');
}

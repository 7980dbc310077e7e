import Big from 'big.js';
import { boundInput, type InputBound } from './bound-input.ts';
import { boundOutput } from './bound-output.ts';
import { boundServerTools, type ServerToolBound } from './bound-server-tools.ts';
import { largest, type ModelPrice, type PriceBand } from './model-price.ts';
import { requestedModes } from './requested-modes.ts';
import { Unbounded } from './unbounded.ts';
import { isObject } from './usage.ts';

/** What of a request its price depends on; `body` as the provider reads it, decompressed. */
export interface PricedRequest {
  method: string;
  path: string;
  body: Uint8Array;
}

/** The most a request can cost, or why that cannot be said and what to do. */
export type WorstCase = { usd: Big; inputTokens: number; outputTokens: number } | { problem: string };

const MILLIONTH = new Big('0.000001');

/** True for what no provider charges: reading, and counting tokens. */
export function isFreeRequest({ method, path }: Omit<PricedRequest, 'body'>): boolean {
  return method === 'GET' || path.endsWith('/count_tokens');
}

/**
 * The most that a request to a model of this price can cost: every part of it as dear as its body allows. Whatever the answer's usage
 * turns out to be, `PriceBook.costOf` is not above it.
 */
export function worstCaseAt(price: ModelPrice, { body }: PricedRequest): WorstCase {
  try {
    const request = parse(body);
    const tools = boundServerTools(price, request);
    const input = boundInput(price, request, body.length, tools);
    const outputTokens = boundOutput(price, request);
    return { usd: dearest(price, request, input, outputTokens, tools), inputTokens: input.tokens, outputTokens };
  } catch (error) {
    if (error instanceof Unbounded) return { problem: `what it may cost has no bound: ${error.message}` };
    throw error;
  }
}

function parse(body: Uint8Array): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
    if (isObject(parsed)) return parsed;
  } catch {}
  throw new Unbounded('its body is not a JSON object');
}

function dearest(
  price: ModelPrice,
  request: Record<string, unknown>,
  input: InputBound,
  outputTokens: number,
  tools: ServerToolBound,
): Big {
  const reached = price.bands.filter((band) => band.aboveInputTokens === 0 || input.tokens > band.aboveInputTokens);
  const tokens = reached.map((band) =>
    dearestInput(band, input).times(input.tokens).plus(band.output.times(outputTokens)).times(MILLIONTH),
  );
  return largest(tokens).times(requestedModes(price, request)).plus(tools.feesUsd);
}

function dearestInput(band: PriceBand, { writes5m, writes1h }: InputBound): Big {
  const writes = [...(writes5m ? [band.cacheWrite5m] : []), ...(writes1h ? [band.cacheWrite1h] : [])];
  return largest([band.input, band.cacheRead, ...writes]);
}

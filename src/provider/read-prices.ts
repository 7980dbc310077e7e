import Big from 'big.js';
import type { Pool } from 'pg';
import type { ModelPrice, PriceBand } from './model-price.ts';
import { builtInPrices } from './price-list.ts';
import { PriceBook } from './prices.ts';

interface PriceRow {
  model: string;
  valid_from: string;
  built_in: boolean;
  above_input_tokens: number;
  input_usd_per_mtok: string;
  output_usd_per_mtok: string;
  cache_read_usd_per_mtok: string;
  cache_write_5m_usd_per_mtok: string;
  cache_write_1h_usd_per_mtok: string;
  factors: Record<string, string>;
  server_tool_usd_per_1000: Record<string, string>;
  context_tokens: number | null;
  max_output_tokens: number | null;
}

/** The lists that come with the program, and before them what people have written into table `model_price`. */
export async function readPrices(pool: Pool): Promise<PriceBook> {
  return new PriceBook(await readAllPrices(pool));
}

/** Every price there is; the table is read whole: it holds tens of rows. */
export async function readAllPrices(db: Pick<Pool, 'query'>): Promise<ModelPrice[]> {
  const { rows } = await db.query<PriceRow>(
    'SELECT *, valid_from::text FROM madrugada.model_price WHERE NOT built_in ORDER BY above_input_tokens',
  );
  const prices = Map.groupBy(rows, (row) => JSON.stringify([row.model, row.valid_from]));
  return [...builtInPrices(), ...[...prices.values()].map(priceOf).filter((price) => price !== undefined)];
}

/** A price without a band for short prompts, which nothing but psql can have written, is none. */
function priceOf(rows: PriceRow[]): ModelPrice | undefined {
  const [first, ...longer] = rows;
  if (first === undefined || first.above_input_tokens > 0) return undefined;
  return {
    model: first.model,
    validFrom: new Date(`${first.valid_from}T00:00:00Z`),
    builtIn: first.built_in,
    bands: [bandOf(first), ...longer.map(bandOf)],
    factors: decimals(first.factors),
    serverToolsPer1000: decimals(first.server_tool_usd_per_1000),
    contextTokens: first.context_tokens ?? undefined,
    maxOutputTokens: first.max_output_tokens ?? undefined,
  };
}

function bandOf(row: PriceRow): PriceBand {
  return {
    aboveInputTokens: row.above_input_tokens,
    input: new Big(row.input_usd_per_mtok),
    output: new Big(row.output_usd_per_mtok),
    cacheRead: new Big(row.cache_read_usd_per_mtok),
    cacheWrite5m: new Big(row.cache_write_5m_usd_per_mtok),
    cacheWrite1h: new Big(row.cache_write_1h_usd_per_mtok),
  };
}

function decimals(texts: Record<string, string>): Map<string, Big> {
  return new Map(Object.entries(texts).map(([name, text]) => [name, new Big(text)]));
}

import Big from 'big.js';
import type { Pool } from 'pg';
import { PriceBook } from './prices.ts';

interface PriceRow {
  model: string;
  valid_from: string;
  input_usd_per_mtok: string;
  output_usd_per_mtok: string;
  cache_read_usd_per_mtok: string;
  cache_write_5m_usd_per_mtok: string;
  cache_write_1h_usd_per_mtok: string;
}

/** Reads table `model_price`, whole: it holds tens of rows. */
export async function readPrices(pool: Pool): Promise<PriceBook> {
  const { rows } = await pool.query<PriceRow>('SELECT *, valid_from::text FROM madrugada.model_price');
  return new PriceBook(
    rows.map((row) => ({
      model: row.model,
      validFrom: new Date(`${row.valid_from}T00:00:00Z`),
      input: new Big(row.input_usd_per_mtok),
      output: new Big(row.output_usd_per_mtok),
      cacheRead: new Big(row.cache_read_usd_per_mtok),
      cacheWrite5m: new Big(row.cache_write_5m_usd_per_mtok),
      cacheWrite1h: new Big(row.cache_write_1h_usd_per_mtok),
    })),
  );
}

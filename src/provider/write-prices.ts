import type { ClientBase } from 'pg';
import type { ModelPrice } from './model-price.ts';

/**
 * Writes a person's prices into table `model_price`, in the caller's transaction: a price of the same model and date takes the place of the
 * one before, with all its bands. `client` is a connection of the role operator; `source` is the file they come from.
 */
export async function writePrices(client: ClientBase, prices: readonly ModelPrice[], source: string): Promise<void> {
  for (const price of prices) {
    const date = price.validFrom.toISOString().slice(0, 10);
    await client.query('DELETE FROM madrugada.model_price WHERE model = $1 AND valid_from = $2 AND NOT built_in', [
      price.model,
      date,
    ]);
    for (const band of price.bands)
      await client.query(
        `INSERT INTO madrugada.model_price (model, valid_from, above_input_tokens, input_usd_per_mtok, output_usd_per_mtok,
           cache_read_usd_per_mtok, cache_write_5m_usd_per_mtok, cache_write_1h_usd_per_mtok, factors, server_tool_usd_per_1000,
           context_tokens, max_output_tokens, source)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
        [
          price.model,
          date,
          band.aboveInputTokens,
          ...[band.input, band.output, band.cacheRead, band.cacheWrite5m, band.cacheWrite1h].map((usd) =>
            usd.toFixed(),
          ),
          textsOf(price.factors),
          textsOf(price.serverToolsPer1000),
          price.contextTokens ?? null,
          price.maxOutputTokens ?? null,
          source,
        ],
      );
  }
}

function textsOf(decimals: ModelPrice['factors']): string {
  return JSON.stringify(Object.fromEntries([...decimals].map(([name, usd]) => [name, usd.toFixed()])));
}

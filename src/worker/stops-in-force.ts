import type { Pool } from 'pg';
import { patiently } from '../postgres/patiently.ts';

/** Which of these batches may send nothing now, and why. Waits while the database is away. */
export async function stopsInForce(pool: Pool, batchKeys: string[]): Promise<Map<string, string>> {
  if (batchKeys.length === 0) return new Map();
  const { rows } = await patiently(() =>
    pool.query<{ batch_key: string; message: string }>(
      `SELECT b.batch_key,
              CASE WHEN madrugada.is_stopped() THEN 'everything is stopped'
                   ELSE format('batch %s is %s: %s', b.batch_key, b.state, coalesce(b.stop_reason, '')) END AS message
         FROM madrugada.batch b WHERE b.batch_key = ANY ($1) AND (b.state <> 'open' OR madrugada.is_stopped())`,
      [batchKeys],
    ),
  );
  return new Map(rows.map(({ batch_key, message }) => [batch_key, message]));
}

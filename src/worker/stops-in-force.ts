import type { Pool } from 'pg';
import { patiently } from '../postgres/patiently.ts';

/** Why a batch may send nothing now. `cutOff`: a person does not even wait for what is in flight. */
export interface StopInForce {
  message: string;
  cutOff: boolean;
}

/** Which of these batches are stopped, by themselves or with everything. Waits while the database is away. */
export async function stopsInForce(pool: Pool, batchKeys: string[]): Promise<Map<string, StopInForce>> {
  if (batchKeys.length === 0) return new Map();
  const { rows } = await patiently(() =>
    pool.query<StopInForce & { batchKey: string }>({
      name: 'stops in force',
      text: `SELECT b.batch_key AS "batchKey",
              CASE WHEN s.id IS NOT NULL THEN 'everything is stopped'
                   ELSE format('batch %s is %s: %s', b.batch_key, b.state, coalesce(b.stop_reason, '')) END AS message,
              b.cut_off_at IS NOT NULL OR s.cut_off_at IS NOT NULL AS "cutOff"
         FROM madrugada.batch b
         LEFT JOIN madrugada.stop_switch s ON s.lifted_at IS NULL
        WHERE b.batch_key = ANY ($1) AND (b.state <> 'open' OR s.id IS NOT NULL)`,
      values: [batchKeys],
    }),
  );
  return new Map(rows.map(({ batchKey, message, cutOff }) => [batchKey, { message, cutOff }]));
}

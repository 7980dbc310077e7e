import type { TestDatabase } from './database.ts';
import { until } from './until.ts';

/** Waits until a backend of this database waits for a row of another transaction, and returns its statement. */
export function rowLockWait({ pool }: TestDatabase): Promise<string> {
  return until('somebody waits for a row lock', async () => {
    const { rows } = await pool.query<{ query: string }>(
      `SELECT query FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple')`,
    );
    return rows[0]?.query;
  });
}

import type { Pool } from 'pg';
import { MadrugadaError } from '../errors.ts';

/** Connections of one worker process: four for work, one for locks and LISTEN, one for the heartbeat (rule R12). */
const PER_WORKER = 6;
const FOR_OTHERS = 5;

/** Throws before a night starts that the server has not enough connections for. */
export async function checkConnections(pool: Pool, workers: number): Promise<void> {
  const { rows } = await pool.query<{ free: number }>(
    `SELECT current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
            - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::integer AS free`,
  );
  const free = rows[0]?.free ?? 0;
  const needed = workers * PER_WORKER + FOR_OTHERS;
  if (free < needed)
    throw new MadrugadaError(
      `${workers} workers need ${needed} database connections, and the server has ${free} free: raise max_connections, or use fewer workers with a higher --concurrency`,
    );
}

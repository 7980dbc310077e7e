import type { ClientBase, Pool } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { type Finding, fail, ok } from '../postgres/finding.ts';

/** Connections of one worker process: four for work, one for locks and LISTEN, one for the heartbeat (rule R12). */
const PER_WORKER = 6;
const FOR_OTHERS = 5;

/** Throws before a night starts that the server has not enough connections for. */
export async function checkConnections(pool: Pool, workers: number): Promise<void> {
  const { free } = await connectionsOf(pool);
  const needed = neededBy(workers);
  if (free < needed)
    throw new MadrugadaError(
      `${workers} workers need ${needed} database connections, and the server has ${free} free: raise max_connections, or use fewer workers with a higher --concurrency`,
    );
}

/** Has the server connections enough for a night of so many workers? */
export async function attestConnections(client: ClientBase, workers: number): Promise<Finding> {
  const { free, most } = await connectionsOf(client);
  const needed = neededBy(workers);
  const seen = `${workers} workers need ${needed}, ${free} of ${most} are free`;
  if (free >= needed) return ok('connections', seen);
  return fail('connections', seen, 'raise max_connections, or use fewer workers with a higher --concurrency');
}

function neededBy(workers: number): number {
  return workers * PER_WORKER + FOR_OTHERS;
}

async function connectionsOf(database: ClientBase | Pool): Promise<{ free: number; most: number }> {
  const { rows } = await database.query<{ free: number; most: number }>(
    `SELECT current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
            - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::integer AS free,
            current_setting('max_connections')::integer AS most`,
  );
  return rows[0] ?? { free: 0, most: 0 };
}

import type { Pool } from 'pg';

/**
 * Gives back leases that ran out after the given moment, and those of workers that are silent and have lost their slots (rule R6).
 * Returns how many tasks went back, and the database's time to pass the next time.
 */
export async function sweepLeases(pool: Pool, expiredAfter: string): Promise<{ released: number; sweptUntil: string }> {
  const { rows } = await pool.query<{ released: number; until: string }>({
    name: 'sweep',
    text: `SELECT madrugada.sweep_expired_leases($1) + madrugada.release_silent_workers() AS released,
                  (madrugada.now() - interval '1 minute')::text AS until`,
    values: [expiredAfter],
  });
  const [row] = rows;
  return { released: row?.released ?? 0, sweptUntil: row?.until ?? expiredAfter };
}

/** Gives back what a slot holds by a claim whose commit its worker did not see (rule R6). */
export async function releaseUnknownClaims(
  pool: Pool,
  slot: string,
  workerId: number,
  knownTasks: number[],
): Promise<void> {
  await pool.query('SELECT madrugada.release_unknown_claims($1, $2, $3)', [slot, workerId, knownTasks]);
}

import Big from 'big.js';
import type { Pool } from 'pg';
import { failpoint } from '../failpoint.ts';
import { patiently } from '../postgres/patiently.ts';
import type { Holder } from './finish.ts';

/** What asking for more has brought: money, or the limit that is reached and what is left of it; or the lease is gone. */
export type Drawn = { kind: 'granted'; usd: Big } | { kind: 'refused'; limit: string; free: Big } | { kind: 'lost' };

/**
 * Draws at least `needed` dollars for a running attempt from its batch and month, `asked` while there is plenty. A draw whose commit was not
 * seen is repeated: what the first one drew goes back when the attempt ends.
 */
export async function drawAllowance(pool: Pool, holder: Holder, needed: Big, asked: Big): Promise<Drawn> {
  await failpoint('budget.draw.before');
  const { rows } = await patiently(() =>
    pool.query<{ granted: string | null; free: string | null; reached: string | null }>({
      name: 'draw',
      text: 'SELECT granted, free, reached FROM madrugada.draw_allowance($1, $2, $3, $4, $5)',
      values: [holder.taskId, holder.workerId, holder.leaseToken, needed.toFixed(), asked.toFixed()],
    }),
  );
  await failpoint('budget.draw.after');
  const [row] = rows;
  if (row?.granted) return { kind: 'granted', usd: new Big(row.granted) };
  if (row?.free && row.reached) return { kind: 'refused', limit: row.reached, free: new Big(row.free) };
  return { kind: 'lost' };
}

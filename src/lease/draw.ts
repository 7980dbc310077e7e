import Big from 'big.js';
import type { Pool } from 'pg';
import { failpoint } from '../failpoint.ts';
import { patiently } from '../postgres/patiently.ts';
import { Together } from '../postgres/together.ts';
import type { Holder } from './finish.ts';

/** What asking for more has brought: money, or the limit that is reached and what is left of it; or the lease is gone. */
export type Drawn = { kind: 'granted'; usd: Big } | { kind: 'refused'; limit: string; free: Big } | { kind: 'lost' };

interface Request {
  holder: Holder;
  needed: Big;
  asked: Big;
}

/** Draws money for the attempts of one process. */
export class Draws {
  readonly #together: Together<Request, Drawn>;

  constructor(pool: Pool) {
    this.#together = new Together((requests, waits) => drawTogether(pool, requests, waits));
  }

  /**
   * Draws at least `needed` dollars for a running attempt from its batch and month, `asked` while there is plenty. A draw whose commit was not
   * seen is repeated: what the first one drew goes back when the attempt ends.
   */
  async draw(holder: Holder, needed: Big, asked: Big): Promise<Drawn> {
    await failpoint('budget.draw.before');
    const drawn = await this.#together.do({ holder, needed, asked });
    await failpoint('budget.draw.after');
    return drawn;
  }
}

interface DrawnRow {
  is_done: boolean;
  granted: string | null;
  free: string | null;
  reached: string | null;
}

async function drawTogether(pool: Pool, requests: Request[], waits: boolean): Promise<(Drawn | undefined)[]> {
  const { rows } = await patiently(() =>
    pool.query<DrawnRow>({
      name: 'draw',
      text: 'SELECT is_done, granted, free, reached FROM madrugada.draw_allowances($1, $2, $3, $4, $5, $6) ORDER BY place',
      values: [
        requests.map(({ holder }) => holder.taskId),
        requests.map(({ holder }) => holder.workerId),
        requests.map(({ holder }) => holder.leaseToken),
        requests.map(({ needed }) => needed.toFixed()),
        requests.map(({ asked }) => asked.toFixed()),
        waits,
      ],
    }),
  );
  return rows.map((row) => (row.is_done ? drawnOf(row) : undefined));
}

function drawnOf({ granted, free, reached }: DrawnRow): Drawn {
  if (granted) return { kind: 'granted', usd: new Big(granted) };
  if (free && reached) return { kind: 'refused', limit: reached, free: new Big(free) };
  return { kind: 'lost' };
}

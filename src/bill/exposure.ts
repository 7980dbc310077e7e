import type { Queryable } from '../batch/queryable.ts';

/** The most that could have been paid twice in a batch: dispatches in doubt beside the one charge that their call owes. */
export type Exposure = {
  readonly calls: number;
  readonly dispatches: number;
  /** US dollars as an exact decimal, at worst-case prices. */
  readonly usd: string;
  /** Dispatches without a worst-case price: not in `usd`. */
  readonly unbounded: number;
};

/** Reads the exposure of a batch. */
export async function readExposure(db: Queryable, batchKey: string): Promise<Exposure> {
  const { rows } = await db.query<Exposure>(
    `SELECT calls::integer, dispatches::integer, trim_scale(usd) AS usd, unbounded::integer
       FROM madrugada.audit_exposure WHERE batch_key = $1`,
    [batchKey],
  );
  const [exposure] = rows;
  if (exposure === undefined) throw new Error(`no exposure of batch ${batchKey}`);
  return exposure;
}

/** The exposure of all batches in the database together. */
export async function readTotalExposure(db: Queryable): Promise<Exposure> {
  const { rows } = await db.query<Exposure>(
    `SELECT coalesce(sum(calls), 0)::integer AS calls, coalesce(sum(dispatches), 0)::integer AS dispatches,
            trim_scale(coalesce(sum(usd), 0)) AS usd, coalesce(sum(unbounded), 0)::integer AS unbounded
       FROM madrugada.audit_exposure`,
  );
  const [exposure] = rows;
  if (exposure === undefined) throw new Error('no exposure');
  return exposure;
}

/** The exposure in one sentence. */
export function exposureSentence({ calls, dispatches, usd, unbounded }: Exposure): string {
  if (dispatches === 0) return 'nothing in doubt could have been paid twice';
  const beyond =
    unbounded > 0 ? `, and the price of ${count(unbounded, 'dispatch', 'dispatches')} that has no bound` : '';
  return `at most US$ ${usd} could have been paid twice${beyond}: ${count(calls, 'call', 'calls')}, by ${count(dispatches, 'dispatch', 'dispatches')} in doubt`;
}

function count(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}

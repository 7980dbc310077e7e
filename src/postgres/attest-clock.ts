import type { ClientBase } from 'pg';
import { type Finding, fail, ok, warn } from './finding.ts';

/** Times in the bill and in logs of two machines no longer line up. */
const UNEASY_MS = 1_000;
/** What a taker grants beyond a deadline. */
const MARGIN_MS = 30_000;
const ROUNDS = 3;

/** How far the clocks of this machine and of the database are apart. `hostNow` in milliseconds since 1970. */
export async function attestClock(client: ClientBase, hostNow: () => number = Date.now): Promise<Finding> {
  const check = 'clocks';
  let skew = 0;
  let doubt = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = hostNow();
    const { rows } = await client.query<{ at: number }>(
      'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS at',
    );
    const after = hostNow();
    if (after - before >= doubt) continue; // the quickest answer tells best
    doubt = after - before;
    skew = Number(rows[0]?.at) - (before + after) / 2;
  }
  const apart = Math.abs(skew);
  const seen = `the database's clock is ${(apart / 1000).toFixed(1)} s ${skew >= 0 ? 'ahead of' : 'behind'} this machine's`;
  const next = 'run a time service (chrony, systemd-timesyncd) on both machines';
  if (apart > MARGIN_MS) return fail(check, seen, next);
  return apart > UNEASY_MS + doubt ? warn(check, seen, next) : ok(check, seen);
}

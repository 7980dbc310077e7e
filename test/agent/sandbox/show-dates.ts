// Run by a test in another time zone: prints that zone's offset, and how a sandbox shows dates.
import { SandboxPool } from '../../../src/agent/sandbox/sandbox-pool.ts';
import { outputsOf } from './sandboxes.ts';

/** Everything of a date in which the host's zone could show. */
export const DATES = `[new Date(), new Date(2026, 6, 1), new Date(2026, 0, 1)].map((date) =>
  [date.toString(), date.getTimezoneOffset(), date.getHours(), date.toLocaleString(), date.getTime()]).flat()
  .concat(Date(), Date.parse('2026-07-01T00:00'))`;

if (import.meta.main) {
  const pool = new SandboxPool({ threads: 1, hardLimitMs: 30_000 });
  const dates = await outputsOf(pool, [DATES]);
  await pool.close();
  process.stdout.write(JSON.stringify({ offset: new Date(2026, 6, 1).getTimezoneOffset(), dates }));
}

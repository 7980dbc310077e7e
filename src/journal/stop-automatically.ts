import type { Pool } from 'pg';
import { failpoint } from '../failpoint.ts';
import { patiently } from '../postgres/patiently.ts';
import type { Verdict } from './verdict.ts';

/** Stops a batch for something that nobody can mend at night, with an alert of this kind. Returns the verdict on the attempt that met it. */
export async function stopAutomatically(pool: Pool, batchKey: string, kind: string, why: string): Promise<Verdict> {
  await failpoint('journal.stop.before');
  await patiently(() => pool.query('SELECT madrugada.stop_automatically($1, $2, $3)', [batchKey, kind, why]));
  await failpoint('journal.stop.after');
  return { kind: 'stopped', message: `batch ${batchKey} was stopped: ${why}` };
}

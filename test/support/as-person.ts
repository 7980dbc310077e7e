import { asPerson } from '../../src/batch/as-person.ts';
import type { TestDatabase } from './database.ts';

/** Runs one statement, as a person who gives name and reason. */
export async function sayAndRun({ pool }: Pick<TestDatabase, 'pool'>, sql: string, values: unknown[] = []) {
  const client = await pool.connect();
  try {
    return await asPerson(client, { by: 'Ana', reason: 'by the test' }, () => client.query(sql, values));
  } finally {
    client.release();
  }
}

/** A person lets work go on after a stop of everything. */
export async function liftStop(db: Pick<TestDatabase, 'pool'>): Promise<void> {
  await sayAndRun(db, 'SELECT madrugada.lift_stop()');
}

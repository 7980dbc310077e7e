import type { TestDatabase } from './database.ts';
import { until } from './until.ts';

/** A table of one batch whose inserts do not commit until they are let go. */
export interface StalledTable {
  /** Resolves once a backend waits in the middle of its commit; its process id, for pg_terminate_backend. */
  stalled(): Promise<number>;
  /** Lets all go that wait. */
  release(): Promise<void>;
}

const LOCK = 20_261_201;
let triggers = 0;

/**
 * Makes inserts into a journal table wait, at their commit, for a lock that the test holds: everything a transaction does is done, its locks are
 * held, and nobody can say yet whether it will have happened. Only for rows of one batch.
 */
export async function stallCommits(
  db: TestDatabase,
  table: 'call_intent' | 'call_outcome' | 'step_record',
  batchKey: string,
): Promise<StalledTable> {
  triggers += 1;
  const holder = await db.pool.connect();
  await holder.query('SELECT pg_advisory_lock($1)', [LOCK]);
  await db.pool.query(`
    CREATE OR REPLACE FUNCTION madrugada.stall() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
      IF NEW.batch_key = TG_ARGV[0] THEN PERFORM pg_advisory_xact_lock_shared(${LOCK}); END IF;
      RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER stall_${table}_${triggers} AFTER INSERT ON madrugada.${table} DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION madrugada.stall('${batchKey}')`);
  return {
    stalled: () =>
      until('a commit is stalled', async () => {
        const { rows } = await db.pool.query<{ pid: number }>(
          `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory'`,
        );
        return rows[0]?.pid;
      }),
    async release() {
      await holder.query('SELECT pg_advisory_unlock($1)', [LOCK]);
      holder.release();
    },
  };
}

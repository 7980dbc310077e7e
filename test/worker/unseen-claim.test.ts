import { expect, test } from 'vitest';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf } from '../support/audit.ts';
import { startProxy } from '../support/cuttable-proxy.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { until } from '../support/until.ts';
import { untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const LOCK = 20_261_204;

/** Makes the commit of every claim wait while the test holds a lock, though its client be gone. */
async function stallClaims(): Promise<{ release(): Promise<void> }> {
  const holder = await openTransaction(bench.db);
  await holder.client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
  await bench.db.pool.query(`
    CREATE FUNCTION public.stall_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET client_connection_check_interval = 0 AS
      'BEGIN PERFORM pg_advisory_xact_lock_shared(${LOCK}); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER stall_claim AFTER INSERT ON madrugada.attempt DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION public.stall_claim()`);
  return { release: () => holder.commit() };
}

/** A connection of the workers whose latest statement is this one. */
async function backend(statement: string, state: string): Promise<number | undefined> {
  const { rows } = await bench.db.pool.query<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'madrugada/w%/work' AND query LIKE '%' || $1 || '%' AND state = $2
      ORDER BY backend_start DESC LIMIT 1`,
    [statement, state],
  );
  return rows[0]?.pid;
}

test('a claim that commits after its worker has lost the connection, and looked in vain, is given back and uses nothing up', async () => {
  const claims = await stallClaims();
  const batch = await loadTestBatch(bench.db);
  const proxy = await startProxy(bench.db.url);
  bench.processes.worker('cut', batch, { environment: { DATABASE_URL: proxy.url } });
  const claiming = await until('the claim is about to commit', () => backend('claim_task', 'active'));
  proxy.cut();
  await until('the worker has looked again, and found nothing to claim', async () => {
    const pid = await backend('next_claimable_at', 'idle');
    return pid !== undefined && pid !== claiming;
  });
  await claims.release();
  await until('the claim has ended', async () => (await backend('claim_task', 'active')) !== claiming);
  await bench.db.pool.query(`SELECT pg_notify('madrugada_work', $1)`, [batch]);
  await untilDone(bench.db, batch);

  expect((await attemptsOf(bench.db, batch)).map(({ ending, error }) => [ending, error])).toEqual([
    ['released', 'claimed, but the commit was not seen'],
    ['completed', null],
  ]);
  expect((await taskOf(bench.db, batch)).attempts).toBe(1);
});

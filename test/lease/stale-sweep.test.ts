import type { PoolClient } from 'pg';
import { beforeAll, expect, test } from 'vitest';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { passages } from '../support/audit.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { completeTask, holderOf } from '../support/leases.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { until } from '../support/until.ts';

const bench = leaseBench();
const LOCK = 20_261_203;

/** A session whose clock is ahead, and which can be held up between its snapshot and its look at the rows: whenever it asks for the time. */
beforeAll(() =>
  bench.db.pool.query(`
    CREATE OR REPLACE FUNCTION madrugada.now() RETURNS timestamptz LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
    BEGIN
      IF current_setting('test.ahead', true) = 'yes' THEN
        PERFORM pg_advisory_xact_lock_shared(${LOCK});
        RETURN pg_catalog.statement_timestamp() + interval '11 minutes';
      END IF;
      RETURN pg_catalog.statement_timestamp();
    END $$`),
);

const sweep = (client: PoolClient) => client.query(`SELECT madrugada.sweep_expired_leases('-infinity') AS released`);

test('a sweep that saw a lease expired does not overwrite the task that was completed before it came to write', async () => {
  const batch = await loadTestBatch(bench.db);
  const { lease } = await bench.worker.claim(batch);
  const holdUp = await openTransaction(bench.db);
  const sweeper = await openTransaction(bench.db);
  await sweeper.client.query('SET LOCAL plan_cache_mode = force_generic_plan');
  await sweep(sweeper.client); // planned now: planning asks for the time, too
  await holdUp.client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
  await sweeper.client.query(`SET LOCAL test.ahead = 'yes'`);
  const sweeping = sweep(sweeper.client);
  await until('the sweep is held up', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory' AND query LIKE '%sweep_expired%'`,
    );
    return rows.length > 0;
  });
  expect(await completeTask(bench.worker.pool, holderOf(lease), 'answer', 0)).toBe(true);
  await holdUp.commit();
  const { rows } = await sweeping;
  await sweeper.commit();

  expect(rows).toEqual([{ released: 0 }]);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'completed', result: 'answer' });
  expect(await passages(bench.db, batch)).toEqual(['claimed', 'completed']);
});

test('that sweep would have taken the task back, had it not been completed', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.worker.claim(batch);
  const sweeper = await openTransaction(bench.db);
  await sweeper.client.query(`SET LOCAL test.ahead = 'yes'`);
  const { rows } = await sweep(sweeper.client);
  await sweeper.commit();

  expect(rows).toEqual([{ released: 1 }]);
});

import type { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';

let db: TestDatabase;
let first: string;
beforeAll(async () => {
  db = await createTestDatabase();
});
beforeEach(async () => {
  first = await loadTestBatch(db);
});
afterAll(() => db.drop());

const PARENTS = ['call_intent', 'call_outcome', 'step_record'];

/** Runs `work` while another session's transaction, begun with `sql`, is open. */
async function during<T>(sql: string, work: (holder: Client) => Promise<T>): Promise<T> {
  const holder = await openClient({ url: db.url, applicationName: 'madrugada test holder' });
  try {
    await holder.query(`BEGIN; ${sql}`);
    return await work(holder);
  } finally {
    await holder.end();
  }
}

/** When the statement of the load that waits for a lock began, or undefined. */
async function waitingSince(): Promise<string | undefined> {
  const { rows } = await db.pool.query<{ since: string }>(
    `SELECT query_start::text AS since FROM pg_stat_activity
      WHERE datname = $1 AND application_name = 'madrugada test load' AND wait_event_type = 'Lock'`,
    [db.name],
  );
  return rows[0]?.since;
}

test('each batch has partitions of its own, with the indexes and triggers of the journal', async () => {
  const { rows } = await db.pool.query<{ parent: string; same: boolean }>(
    `SELECT i.inhparent::regclass::text AS parent,
            (SELECT count(*) FROM pg_index x WHERE x.indrelid = i.inhrelid) = (SELECT count(*) FROM pg_index x WHERE x.indrelid = i.inhparent)
            AND (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = i.inhrelid) = (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = i.inhparent) AS same
       FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = ANY ($1::regclass[]) AND pg_get_expr(c.relpartbound, c.oid) LIKE '%' || $2 || '%' ORDER BY 1`,
    [PARENTS, first],
  );
  expect(rows).toEqual(PARENTS.map((parent) => ({ parent, same: true })));
});

test('a batch is loaded while a long export reads another one', async () => {
  const reads = PARENTS.map((parent) => `SELECT count(*) FROM madrugada.${parent} WHERE batch_key = '${first}'`);
  await during(reads.join(';'), async () => {
    expect(await loadTestBatch(db)).not.toBe(first);
  });
});

test('a batch is loaded while a worker writes into another one', async () => {
  const writes = `INSERT INTO madrugada.call_outcome (batch_key, task_id, seq, dispatch, kind, answers) VALUES ('${first}', 1, 1, 1, 'not_sent', false)`;
  await during(writes, async () => {
    expect(await loadTestBatch(db)).not.toBe(first);
  });
});

test('a load that meets a lock on the journal gives up its place in the queue, and tries again', async () => {
  await during('LOCK TABLE madrugada.call_outcome IN SHARE UPDATE EXCLUSIVE MODE', async (holder) => {
    const load = loadTestBatch(db);
    const since = await until('the load waits', waitingSince);
    await until('the load waits anew', async () => ![undefined, since].includes(await waitingSince()));
    await holder.query('ROLLBACK');
    expect(await load).not.toBe(first);
  });
});

test('nothing may be written for a batch that has no partitions', async () => {
  const write = `INSERT INTO madrugada.call_outcome (batch_key, task_id, seq, dispatch, kind, answers) VALUES ('other:v1', 1, 1, 1, 'not_sent', false)`;
  await expect(db.pool.query(write)).rejects.toThrow('no partition of relation "call_outcome" found for row');
});

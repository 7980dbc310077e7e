import type { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPool } from '../../src/postgres/connect.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';

const bench = journalBench();
const TABLES = ['call_intent', 'call_outcome', 'step_record'];
const ROLES = ['worker', 'operator', 'approver', 'auditor'] as const;
/** By the grants; the triggers, which refuse even the owner, say something else. */
const REFUSED = { code: '42501', message: expect.stringMatching(/^(permission denied|must be owner)/) };

const pools = new Map<string, Pool>();
const as = (role: string): Pool => {
  const pool = pools.get(role);
  if (pool === undefined) throw new Error(`no pool of role ${role}`);
  return pool;
};

beforeAll(async () => {
  for (const role of [...ROLES, 'owner'] as const)
    pools.set(role, openPool({ url: bench.db.url, as: role, applicationName: 'madrugada test', max: 1 }));
  const worker = await bench.workers.add();
  await worker.attempt(await loadTestBatch(bench.db), async (task) => {
    task.random();
    return ask(task, 'one');
  });
});
afterAll(async () => {
  await Promise.all([...pools.values()].map((pool) => pool.end()));
});

for (const table of TABLES)
  for (const role of ROLES) {
    test(`the ${role} role cannot update ${table}`, async () => {
      await expect(as(role).query(`UPDATE madrugada.${table} SET task_id = 0`)).rejects.toMatchObject(REFUSED);
    });
    test(`the ${role} role cannot delete from ${table}`, async () => {
      await expect(as(role).query(`DELETE FROM madrugada.${table}`)).rejects.toMatchObject(REFUSED);
    });
    test(`the ${role} role cannot truncate ${table}`, async () => {
      await expect(as(role).query(`TRUNCATE madrugada.${table}`)).rejects.toMatchObject(REFUSED);
    });
  }

for (const table of [...TABLES, 'audit_event'])
  test(`not even the owner updates ${table}`, async () => {
    const { rows } = await as('owner').query(`SELECT count(*)::integer AS count FROM madrugada.${table}`);
    expect(rows[0].count).toBeGreaterThan(0); // a row trigger says nothing about an empty table
    await expect(as('owner').query(`UPDATE madrugada.${table} SET task_id = 0`)).rejects.toThrow(/append-only: UPDATE/);
  });

for (const table of TABLES)
  test(`not even the owner deletes from ${table}`, async () => {
    await expect(as('owner').query(`DELETE FROM madrugada.${table}`)).rejects.toThrow(/append-only: DELETE/);
  });

for (const role of ROLES)
  test(`the ${role} role cannot write an audit event`, async () => {
    const forged = `INSERT INTO madrugada.audit_event (subject, event, by_name) VALUES ('task', 'approved', 'the boss')`;
    await expect(as(role).query(forged)).rejects.toMatchObject(REFUSED);
  });

for (const role of ROLES)
  test(`the ${role} role cannot have an audit event written by the function that the triggers use`, async () => {
    const forged = `SELECT madrugada.record_event('task', 'approved', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'forged')`;
    await expect(as(role).query(forged)).rejects.toMatchObject(REFUSED);
  });

test('the worker role cannot change a task but through the lease functions', async () => {
  await expect(as('worker').query(`UPDATE madrugada.task SET state = 'completed'`)).rejects.toMatchObject(REFUSED);
  await expect(as('worker').query(`SELECT madrugada.lose_attempts('{1}', 'x')`)).rejects.toMatchObject(REFUSED);
});

test('the worker role can replace neither the clock nor a rule of the journal', async () => {
  const clock = `CREATE OR REPLACE FUNCTION madrugada.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT pg_catalog.now()'`;
  await expect(as('worker').query(clock)).rejects.toMatchObject(REFUSED);
  await expect(
    as('worker').query('ALTER TABLE madrugada.call_intent DISABLE TRIGGER intent_fence'),
  ).rejects.toMatchObject(REFUSED);
});

test('the journal’s partitions are as closed as their parents', async () => {
  const { rows } = await bench.db.pool.query(
    `SELECT relname FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid WHERE i.inhparent = 'madrugada.call_outcome'::regclass`,
  );
  expect(rows.length).toBe(1);
  await expect(as('worker').query(`DELETE FROM madrugada.${rows[0].relname}`)).rejects.toMatchObject(REFUSED);
  await expect(as('worker').query(`INSERT INTO madrugada.${rows[0].relname} DEFAULT VALUES`)).rejects.toMatchObject(
    REFUSED,
  );
});

import type { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type DatabaseRole, openPool } from '../../src/postgres/connect.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { claimFor } from '../support/leases.ts';

const bench = leaseBench();
const REFUSED = { code: '42501' };
const ROLES = ['worker', 'operator', 'approver', 'auditor'] as const;
const pools = new Map<DatabaseRole, Pool>();

beforeAll(() => {
  for (const role of ROLES)
    pools.set(role, openPool({ url: bench.db.url, as: role, applicationName: 'madrugada test', max: 1 }));
});
afterAll(async () => {
  await Promise.all([...pools.values()].map((pool) => pool.end()));
});

function as(role: DatabaseRole): Pool {
  const pool = pools.get(role);
  if (pool === undefined) throw new Error(`no pool of role ${role}`);
  return pool;
}

/** What a role may change without the help of a function, such as `INSERT call_intent`. */
async function writable(role: DatabaseRole): Promise<string[]> {
  const { rows } = await bench.db.pool.query<{ right: string }>(
    `SELECT p || ' ' || c.relname AS right
       FROM pg_class c, unnest('{INSERT,UPDATE,DELETE,TRUNCATE,TRIGGER,REFERENCES}'::text[]) p
      WHERE c.relnamespace = 'madrugada'::regnamespace AND c.relkind IN ('r', 'p', 'v')
        AND (has_table_privilege($1, c.oid, p) OR p IN ('INSERT', 'UPDATE') AND has_any_column_privilege($1, c.oid, p))
      ORDER BY 1`,
    [`madrugada_${role}`],
  );
  return rows.map(({ right }) => right);
}

/** The functions that run with the owner's rights and that a role may call. */
async function powers(role: DatabaseRole): Promise<string[]> {
  const { rows } = await bench.db.pool.query<{ name: string }>(
    `SELECT DISTINCT proname AS name FROM pg_proc
      WHERE pronamespace = 'madrugada'::regnamespace AND prosecdef AND has_function_privilege($1, oid, 'EXECUTE') ORDER BY 1`,
    [`madrugada_${role}`],
  );
  return rows.map(({ name }) => name);
}

test('a worker inserts into the journal, and changes nothing else by itself', async () => {
  expect(await writable('worker')).toEqual(['INSERT call_intent', 'INSERT call_outcome', 'INSERT step_record']);
});

test('an auditor changes nothing', async () => {
  expect(await writable('auditor')).toEqual([]);
});

for (const role of ROLES)
  test(`the ${role} role changes no batch, task, attempt, worker, stop or audit row by itself`, async () => {
    const closed = /^[A-Z]+ (batch|task|attempt|worker|stop_switch|audit_event|server_identity|pay_again)$/;
    expect((await writable(role)).filter((right) => closed.test(right))).toEqual([]);
  });

for (const role of ['operator', 'approver', 'auditor'] as const)
  test(`the ${role} role writes nothing into the journal`, async () => {
    const journal = /^[A-Z]+ (call_intent|call_outcome|step_record)(_\d+)?$/;
    expect((await writable(role)).filter((right) => journal.test(right))).toEqual([]);
  });

test('a worker loads, resumes, closes and retries nothing, and neither lifts a stop nor vouches for a server', async () => {
  const reserved = [
    'acknowledge_alert',
    'cut_off',
    'load_batch',
    'resume_batch',
    'close_batch',
    'retry_task',
    'lift_stop',
    'stop_everything',
    'set_batch_limits',
    'set_month_limit',
  ];
  const held = await powers('worker');
  expect([...reserved, 'confirm_server_identity'].filter((name) => held.includes(name))).toEqual([]);
  expect(await powers('operator')).toEqual(expect.arrayContaining([...reserved, 'confirm_server_identity']));
});

for (const role of ['approver', 'auditor'] as const)
  test(`the ${role} role neither claims nor ends nor stops anything`, async () => {
    const held = await powers(role);
    const lease = [
      'claim_task',
      'heartbeat',
      'complete_task',
      'end_attempt',
      'end_worker',
      'stop_batch',
      'stop_automatically',
      'cut_off',
      'acknowledge_alert',
      'load_batch',
    ];
    expect(lease.filter((name) => held.includes(name))).toEqual([]);
  });

for (const role of ROLES)
  test(`the ${role} role calls none of the functions that the others are built from`, async () => {
    const inner = [
      'require_person',
      'count_failures',
      'lose_attempts',
      'give_back',
      'record_event',
      'create_partitions',
      'wake_doubtful_tasks',
    ];
    const held = await powers(role);
    expect(inner.filter((name) => held.includes(name))).toEqual([]);
  });

test('a worker cannot finish a task that another holds, though it may call the function', async () => {
  const batch = await loadTestBatch(bench.db);
  const lease = await claimFor(bench.db, bench.worker.id, batch);
  const { rows } = await as('worker').query(`SELECT madrugada.complete_task($1, $2, $3, '1', 0) AS done`, [
    lease.taskId,
    lease.workerId + 1000,
    lease.token,
  ]);
  expect(rows).toEqual([{ done: false }]);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('a worker removes no task, not even of an archived batch', async () => {
  await expect(as('worker').query('DELETE FROM madrugada.task')).rejects.toMatchObject(REFUSED);
});

test('nobody but the owner may become the owner', async () => {
  for (const role of ROLES) {
    const { rows } = await bench.db.pool.query(`SELECT pg_has_role($1, 'madrugada_owner', 'SET') AS may`, [
      `madrugada_${role}`,
    ]);
    expect(rows).toEqual([{ may: false }]);
  }
});

test('a worker makes nothing in the schema', async () => {
  await expect(as('worker').query('CREATE TABLE madrugada.mine (n integer)')).rejects.toMatchObject(REFUSED);
});

test('a worker fools no fence by a temporary table of a table’s name', async () => {
  const batch = await loadTestBatch(bench.db);
  const lease = await claimFor(bench.db, bench.worker.id, batch);
  const client = await as('worker').connect();
  await client.query('BEGIN');
  await client.query('CREATE TEMP TABLE task ON COMMIT DROP AS TABLE madrugada.task');
  await client.query('GRANT ALL ON task TO PUBLIC');
  await client.query('UPDATE pg_temp.task SET lease_token = 99');
  const { rowCount } = await client.query(
    `INSERT INTO madrugada.step_record (batch_key, task_id, scope, kind, name, occurrence, attempt, worker_id, lease_token, value)
     VALUES ($1, $2, '', 'step', 'forged', 1, 99, $3, 99, '1')`,
    [batch, lease.taskId, lease.workerId],
  );
  await client.query('ROLLBACK');
  client.release();
  expect(rowCount).toBe(0);
});

test('functions that set a search path look names up in the schema first and in temporary tables last', async () => {
  const { rows } = await bench.db.pool.query(
    `SELECT proname FROM pg_proc WHERE pronamespace = 'madrugada'::regnamespace AND (prosecdef OR proconfig::text ~ 'search_path')
        AND NOT coalesce('search_path=madrugada, pg_catalog, pg_temp' = ANY (proconfig), false)`,
  );
  expect(rows).toEqual([]);
});

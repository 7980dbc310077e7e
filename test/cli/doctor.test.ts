import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadTestBatch, TestWorkers } from '../support/attempts.ts';
import { runCommand } from '../support/command.ts';
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../support/database.ts';
import { type Check, examine } from '../support/examine.ts';
import { HandMadeNight } from '../support/hand-made-night.ts';

let db: TestDatabase;
beforeEach(async () => {
  db = await createTestDatabase();
});
afterEach(() => db.drop());

test('an installation as it is made has no failing check, and doctor ends with 0', async () => {
  const { code, document } = await examine(db.url);

  expect(document.checks.filter(({ level }) => level === 'fail')).toEqual([]);
  expect([code, document.ok]).toEqual([0, true]);
  expect(document.checks.map(({ check }) => check)).toEqual([
    ...['fsync', 'full_page_writes', 'synchronous_commit', 'primary', 'storage', 'logged tables', 'backup'],
    ...['synchronous standby', 'clocks', 'login', 'direct connection', 'connections', 'roles of connections'],
    ...[
      'migrations',
      'schema',
      'rights granted',
      'rights in effect',
      'other roles',
      'server identity',
      'alerts',
      'bill',
    ],
  ]);
});

test.for<[string, string, Partial<Check>]>([
  [
    'commits that are not waited for',
    `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`,
    { check: 'synchronous_commit', seen: expect.stringContaining('synchronous_commit is off') },
  ],
  [
    'a table that a crash empties',
    'ALTER TABLE madrugada.stop_switch SET UNLOGGED',
    { check: 'logged tables', next: expect.stringContaining('ALTER TABLE madrugada."stop_switch" SET LOGGED') },
  ],
  [
    'an index that is gone',
    'DROP INDEX madrugada.call_outcome_answer',
    { check: 'schema', seen: 'not as the migrations made it: INDEX call_outcome_answer' },
  ],
  [
    'a trigger that is switched off',
    'ALTER TABLE madrugada.task DISABLE TRIGGER task_state_audit',
    { check: 'schema', seen: 'not as the migrations made it: TRIGGER task_state_audit' },
  ],
  [
    'a trigger that is gone',
    'DROP TRIGGER task_state_guard ON madrugada.task',
    { check: 'schema', seen: 'not as the migrations made it: TRIGGER task_state_guard' },
  ],
  [
    'a column more',
    'ALTER TABLE madrugada.worker ADD COLUMN extra text',
    { check: 'schema', seen: 'not as the migrations made it: TABLE madrugada.worker' },
  ],
  [
    'a check that is dropped',
    'ALTER TABLE madrugada.alert DROP CONSTRAINT alert_check',
    { check: 'schema', seen: 'not as the migrations made it: TABLE madrugada.alert' },
  ],
  [
    'a clock that is set',
    `CREATE OR REPLACE FUNCTION madrugada.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT timestamptz ''2026-01-01'''`,
    { check: 'schema', seen: 'not as the migrations made it: FUNCTION madrugada.now' },
  ],
  [
    'a view that hides charges',
    'CREATE OR REPLACE VIEW madrugada.audit_exposure AS SELECT batch_key, 0::bigint AS calls, 0::bigint AS dispatches, 0::numeric AS usd, 0::bigint AS unbounded FROM madrugada.batch',
    { check: 'schema', seen: 'not as the migrations made it: VIEW madrugada.audit_exposure' },
  ],
  [
    'a worker that may forge audit rows',
    'GRANT INSERT ON madrugada.audit_event TO madrugada_worker',
    { check: 'rights granted', seen: 'too much: INSERT on TABLE madrugada.audit_event for madrugada_worker' },
  ],
  [
    'a worker that may rewrite one column of the journal',
    'GRANT UPDATE (cost_usd) ON madrugada.call_outcome TO madrugada_worker',
    {
      check: 'rights in effect',
      seen: 'too much: UPDATE on TABLE madrugada.call_outcome for madrugada_worker',
    },
  ],
  [
    'everybody may resume a batch',
    'GRANT EXECUTE ON FUNCTION madrugada.resume_batch(text) TO PUBLIC',
    { check: 'rights granted', seen: 'too much: EXECUTE on FUNCTION madrugada.resume_batch(text) for PUBLIC' },
  ],
  [
    'a worker that cannot write the journal',
    'REVOKE INSERT ON madrugada.call_intent FROM madrugada_worker',
    { check: 'rights granted', seen: 'missing: INSERT on TABLE madrugada.call_intent for madrugada_worker' },
  ],
  [
    'a migration that was changed',
    `UPDATE madrugada.schema_migration SET sha256 = 'x' WHERE name LIKE '0005%'`,
    { check: 'migrations', seen: expect.stringContaining('migration 0005_journal.sql was changed after') },
  ],
  [
    'a migration that is missing',
    `DELETE FROM madrugada.schema_migration WHERE name = (SELECT max(name) FROM madrugada.schema_migration)`,
    { check: 'migrations', next: 'madrugada init' },
  ],
  [
    'another server than before',
    'INSERT INTO madrugada.server_identity (system_identifier, timeline_id) VALUES (1, 1)',
    { check: 'server identity', next: expect.stringContaining('madrugada resume --by WHO --reason TEXT') },
  ],
])('%s fails, is named, and doctor ends with 1', async ([, sql, expected]) => {
  await db.pool.query(sql);
  const { code, document } = await examine(db.url);

  expect(document.checks.filter(({ level }) => level === 'fail')).toContainEqual({
    level: 'fail',
    seen: expect.any(String),
    next: expect.any(String),
    ...expected,
  });
  expect([code, document.ok]).toEqual([1, false]);
});

test('a right on one partition of the journal is found', async () => {
  await loadTestBatch(db);
  const { rows } = await db.pool.query<{ name: string }>(
    `SELECT 'madrugada.' || c.relname AS name FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = 'madrugada.call_outcome'::regclass`,
  );
  await db.pool.query(`GRANT DELETE ON ${rows[0]?.name} TO madrugada_worker`);
  const { document } = await examine(db.url);

  expect(document.checks.find(({ check }) => check === 'rights in effect')).toMatchObject({
    level: 'fail',
    seen: `too much: DELETE on TABLE ${rows[0]?.name} for madrugada_worker`,
  });
});

test('a role of somebody else that may write is a warning, one that reads is none', async () => {
  const role = `${db.name}_guest`;
  await db.pool.query(
    `CREATE ROLE ${role}; GRANT USAGE ON SCHEMA madrugada TO ${role}; GRANT SELECT ON madrugada.task TO ${role}`,
  );
  const reads = await examine(db.url);
  await db.pool.query(`GRANT DELETE ON madrugada.audit_event TO ${role}`);
  const writes = await examine(db.url);
  await db.pool.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  const look = ({ document }: typeof reads) => document.checks.find(({ check }) => check === 'other roles');

  expect([reads.code, look(reads)?.level]).toEqual([0, 'ok']);
  expect([writes.code, look(writes)?.level, look(writes)?.seen]).toEqual([
    ...[0, 'warn', `may write: DELETE on TABLE madrugada.audit_event for ${role}`],
  ]);
});

test('a login that may not be a worker is told what to grant', async () => {
  const role = `${db.name}_login`;
  await db.pool.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x'`);
  const url = new URL(db.url);
  [url.username, url.password] = [role, 'x'];
  const { code, document } = await examine(url.href);
  await db.pool.query(`DROP ROLE ${role}`);

  expect(code).toBe(1);
  expect(document.checks.at(-1)).toMatchObject({
    check: 'roles of connections',
    seen: 'the login may not be madrugada_worker',
    next: expect.stringContaining('GRANT madrugada_worker TO'),
  });
});

test('a login that is no more than a worker and an operator can be examined; a superuser is a warning', async () => {
  const role = `${db.name}_night`;
  const roles = ['worker', 'operator', 'auditor'].map((name) => `madrugada_${name}`).join(', ');
  await db.pool.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x' IN ROLE ${roles}`);
  const url = new URL(db.url);
  [url.username, url.password] = [role, 'x'];
  const modest = await examine(url.href);
  await db.pool.query(`GRANT madrugada_owner TO ${role}`);
  const owner = await examine(url.href);
  await db.pool.query(`DROP ROLE ${role}`);
  const superuser = await examine(db.url);
  const look = ({ document }: typeof modest) => document.checks.find(({ check }) => check === 'login');

  expect(modest.code).toBe(0);
  expect([modest, owner, superuser].map((one) => look(one)?.level)).toEqual(['ok', 'warn', 'warn']);
  expect(look(superuser)?.next).toContain('CREATE ROLE night LOGIN');
});

test('where alerts go is said, and that one does not get through', async () => {
  const look = async (environment: Record<string, string>) => {
    const { stdout } = await runCommand(['doctor', '--json'], {
      environment: { DATABASE_URL: db.url, ...environment },
    });
    return (JSON.parse(stdout) as { checks: Check[] }).checks.find(({ check }) => check === 'alerts');
  };
  const nowhere = await look({});
  const command = { MADRUGADA_ALERT_COMMAND: 'exit 3' };
  const somewhere = await look(command);
  await db.pool.query(`INSERT INTO madrugada.alert (kind, message) VALUES ('test', 'x')`);
  await runCommand(['alert', 'deliver'], { environment: { DATABASE_URL: db.url, ...command } });
  const failing = await look(command);
  const wrong = await look({ MADRUGADA_ALERT_SMTP: 'smtp://u:secret@h' });

  expect([nowhere, somewhere, failing, wrong].map((one) => one?.level)).toEqual(['warn', 'ok', 'warn', 'warn']);
  expect(failing?.seen).toBe('some do not get through: command (exit 3)');
  expect(JSON.stringify(wrong)).not.toContain('secret');
});

test('a night with more workers than there are connections fails beforehand', async () => {
  const { code, document } = await examine(db.url, '--workers', '1000');
  expect(code).toBe(1);
  expect(document.checks.find(({ check }) => check === 'connections')).toMatchObject({
    level: 'fail',
    seen: expect.stringMatching(/^1000 workers need 6005, \d+ of \d+ are free$/),
  });
});

test('a database without the schema is told to be migrated, and is left as it is', async () => {
  const empty = await createEmptyDatabase();
  const { code, document } = await examine(empty.url);
  const { rows } = await empty.pool.query(`SELECT to_regnamespace('madrugada') AS schema`);
  await empty.drop();

  expect(code).toBe(1);
  expect(document.checks.at(-1)).toMatchObject({ check: 'migrations', level: 'fail', next: 'madrugada init' });
  expect(rows).toEqual([{ schema: null }]);
});

test('a database that cannot be reached ends it with 3', async () => {
  const { code, stderr } = await runCommand(['doctor'], {
    environment: { DATABASE_URL: 'postgres://postgres:secret@127.0.0.1:9/madrugada' },
  });
  expect(code).toBe(3);
  expect(stderr).toContain('the database cannot be reached');
  expect(stderr).not.toContain('secret');
});

test('doctor says in one sentence what could have been paid twice, in the words of audit', async () => {
  const workers = new TestWorkers(db, 'http://127.0.0.1:9'); // nothing is sent
  const night = await HandMadeNight.begin(db, await workers.add());
  night.worstCaseUsd = '0.25';
  await night.dispatch(1, 1, { kind: 'unknown' });
  await night.dispatch(1, 2, { kind: 'charged', usd: '0.0164' });
  await workers.closeAll();
  const run = (...args: string[]) => runCommand(args, { environment: { DATABASE_URL: db.url } });
  const { stdout } = await run('doctor');
  const audit = await run('audit', night.batch);
  const sentence = /at most US\$ [\d.]+ could have been paid twice: 1 call, by 1 dispatch in doubt/;

  expect(sentence.exec(audit.stdout)).not.toBeNull();
  expect(stdout).toContain(`In this database, ${sentence.exec(audit.stdout)?.[0]}.`);
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { openClient, openPool } from '../../src/postgres/connect.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db.drop());

async function select<T>(sql: string): Promise<T | undefined> {
  const { rows } = await db.pool.query<{ value: T }>(`SELECT ${sql} AS value`);
  return rows[0]?.value;
}

test('a connection runs under the role asked for, whatever options the URL brings', async () => {
  const url = `${db.url}?options=${encodeURIComponent('-c role=madrugada_owner -c work_mem=5MB')}&application_name=other`;
  const client = await openClient({ url, as: 'auditor', applicationName: 'madrugada test role' });
  const { rows } = await client.query(
    `SELECT current_user, current_setting('work_mem') AS work_mem, current_setting('application_name') AS application`,
  );
  expect(rows).toEqual([{ current_user: 'madrugada_auditor', work_mem: '5MB', application: 'madrugada test role' }]);
  await client.end();
});

test('a connection tells the server how to notice that its client is gone', async () => {
  const names = ['tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count', 'tcp_user_timeout'];
  const { rows } = await db.pool.query<{ name: string; setting: string }>(
    'SELECT name, setting FROM pg_settings WHERE name = ANY ($1) ORDER BY array_position($1, name)',
    [[...names, 'client_connection_check_interval']],
  );
  expect(rows.map(({ setting }) => Number(setting))).toEqual([10, 5, 4, 30_000, 2_000]);
});

test('an idle connection that was killed is replaced without a word', async () => {
  const pool = openPool({ url: db.url, applicationName: 'madrugada test idle', max: 1 });
  const pid = async () => (await pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]?.pid;
  const first = await pid();
  await db.pool.query('SELECT pg_terminate_backend($1)', [first]);
  await until('the pool has noticed', () => pool.totalCount === 0);
  expect(await pid()).not.toBe(first);
  await pool.end();
});

test('a connection killed in use fails its query, and the pool goes on', async () => {
  const pool = openPool({ url: db.url, applicationName: 'madrugada test use', max: 1 });
  const waiting = expect(pool.query('SELECT pg_sleep(60)')).rejects.toThrow('terminating connection');
  await until('the query runs', async () => {
    const { rows } = await db.pool.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'madrugada test use' AND wait_event = 'PgSleep'`,
    );
    return rows.length > 0;
  });
  await waiting;
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  await pool.end();
});

test('a connection killed while its holder has no query under way fails the next one', async () => {
  const pool = openPool({ url: db.url, applicationName: 'madrugada test hold', max: 1 });
  const held = await pool.connect();
  const ended = new Promise((resolve) => held.once('end', () => resolve(true)));
  await db.pool.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'madrugada test hold'`,
  );
  await ended;
  await expect(held.query('SELECT 1')).rejects.toThrow('not queryable');
  held.release(true);
  await pool.end();
});

test('a statement without an answer is given up on our side', async () => {
  const client = await openClient({ url: db.url, applicationName: 'madrugada test silence', queryTimeoutMs: 50 });
  await expect(client.query('SELECT pg_sleep(60)')).rejects.toThrow('Query read timeout');
  await db.pool.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'madrugada test silence'`,
  );
});

test('bigint arrives as a number, and beyond what a number holds is refused rather than rounded', async () => {
  expect(await select('9007199254740991::bigint')).toBe(Number.MAX_SAFE_INTEGER);
  expect(await select(`'{1,NULL,-2}'::bigint[]`)).toEqual([1, null, -2]);
  await expect(select('9007199254740993::bigint')).rejects.toThrow('bigint 9007199254740993 is beyond');
});

test('numeric and date arrive as text, times as dates', async () => {
  expect(await select('0.10::numeric')).toBe('0.10');
  expect(await select(`'2026-11-01'::date`)).toBe('2026-11-01');
  expect(await select(`'2026-11-01 03:00+00'::timestamptz`)).toEqual(new Date('2026-11-01T03:00:00Z'));
});

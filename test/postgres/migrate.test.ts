import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openClient } from '../../src/postgres/connect.ts';
import { migrate, requireSchema } from '../../src/postgres/migrate.ts';
import { migrationsFolder } from '../../src/postgres/migration-files.ts';
import { dumpSchema } from '../../src/postgres/schema-dump.ts';
import { runCommand, startCommand } from '../support/command.ts';
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';

const ALL = readdirSync(migrationsFolder()).sort();
const VIEWS = '0007_views.sql';
let migrated: TestDatabase;
let folder: string;
beforeAll(async () => {
  migrated = await createTestDatabase();
  folder = mkdtempSync(join(tmpdir(), 'madrugada-migrate-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await migrated.drop();
});

/** A folder with the given migrations of ours. */
function copyMigrations(name: string, files: string[]): string {
  const copy = join(folder, name);
  mkdirSync(copy);
  for (const file of files) copyFileSync(join(migrationsFolder(), file), join(copy, file));
  return copy;
}

async function appliedTo({ pool }: TestDatabase): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>('SELECT name FROM madrugada.schema_migration ORDER BY name');
  return rows.map(({ name }) => name);
}

async function dump({ url }: TestDatabase): Promise<string> {
  const client = await openClient({ url, applicationName: 'madrugada test' });
  try {
    return await dumpSchema(client);
  } finally {
    await client.end();
  }
}

/** Process ids of backends that migrate this database and, if so asked, wait for a lock. */
async function migrators(db: TestDatabase, waiting: boolean): Promise<number[]> {
  const { rows } = await db.pool.query<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE datname = $1 AND application_name = 'madrugada migrate' AND (NOT $2 OR wait_event_type = 'Lock')`,
    [db.name, waiting],
  );
  return rows.map(({ pid }) => pid);
}

test('a database that is up to date is left as it is', async () => {
  expect(await migrate(migrated.url)).toEqual({ applied: [] });
  await requireSchema(migrated.pool);
});

test('of two commands that migrate at once, one applies every migration and the other nothing', async () => {
  const db = await createEmptyDatabase();
  const init = () => runCommand(['init', '--json'], { environment: { DATABASE_URL: db.url } });
  const results = await Promise.all([init(), init()]);
  expect(results.map(({ code }) => code)).toEqual([0, 0]);
  const applied = results.map(({ stdout }) => (JSON.parse(stdout) as { applied: string[] }).applied);
  expect(applied.sort((a, b) => a.length - b.length)).toEqual([[], ALL]);
  expect(await dump(db)).toBe(await dump(migrated));
  await db.drop();
});

test('a migrator waits for another one, whatever that does', async () => {
  const db = await createEmptyDatabase();
  const holder = await openClient({ url: db.url, applicationName: 'madrugada test' });
  await holder.query('SELECT pg_advisory_lock(5203117412)');
  const second = migrate(db.url);
  await until('the second migrator waits', async () => (await migrators(db, true)).length === 1);
  await holder.end();
  expect((await second).applied).toEqual(ALL);
  await db.drop();
});

/** A database whose next migration, the one of the views, is half done and waits for a lock that `holder` has. */
async function stopHalfway(): Promise<{ db: TestDatabase; release: () => Promise<void> }> {
  const db = await createEmptyDatabase();
  await migrate(
    db.url,
    copyMigrations(
      db.name,
      ALL.filter((name) => name < VIEWS),
    ),
  );
  const holder = await openClient({ url: db.url, applicationName: 'madrugada test' });
  await holder.query('BEGIN; LOCK TABLE madrugada.bill_line IN ACCESS EXCLUSIVE MODE'); // the second view reads it
  return { db, release: () => holder.end() };
}

test('a migration whose process is killed half-way leaves nothing, and the next init completes it', async () => {
  const { db, release } = await stopHalfway();
  const init = startCommand(['init'], { environment: { DATABASE_URL: db.url } });
  await until('the migration is half done', async () => (await migrators(db, true)).length === 1);
  init.process.kill('SIGKILL');
  expect(await init.result).toMatchObject({ signal: 'SIGKILL' });
  await until('the database has noticed', async () => (await migrators(db, false)).length === 0);
  await release();
  expect(await appliedTo(db)).toEqual(ALL.filter((name) => name < VIEWS));
  expect((await migrate(db.url)).applied).toEqual(ALL.filter((name) => name >= VIEWS));
  expect(await dump(db)).toBe(await dump(migrated));
  await db.drop();
});

test('a migration whose connection breaks says so, and the next init completes it', async () => {
  const { db, release } = await stopHalfway();
  const init = startCommand(['init'], { environment: { DATABASE_URL: db.url } });
  const [pid] = await until('the migration is half done', async () => {
    const waiting = await migrators(db, true);
    return waiting.length === 1 && waiting;
  });
  await db.pool.query('SELECT pg_terminate_backend($1)', [pid]);
  expect(await init.result).toMatchObject({ code: 3, stderr: expect.stringContaining('the database') });
  await release();
  expect((await migrate(db.url)).applied).toEqual(ALL.filter((name) => name >= VIEWS));
  expect(await dump(db)).toBe(await dump(migrated));
  await db.drop();
});

test('a migration that fails is rolled back alone and named with its line', async () => {
  const db = await createEmptyDatabase();
  const own = copyMigrations('failing', []);
  writeFileSync(join(own, '0001_good.sql'), 'CREATE TABLE madrugada.good ();\n');
  writeFileSync(
    join(own, '0002_bad.sql'),
    'CREATE TABLE madrugada.half ();\n\nCREATE VIEW madrugada.v AS SELECT nothing;\n',
  );
  await expect(migrate(db.url, own)).rejects.toThrow(
    'migration 0002_bad.sql failed at line 3: column "nothing" does not exist. It was rolled back.',
  );
  const { rows } = await db.pool.query(
    `SELECT to_regclass('madrugada.good') AS good, to_regclass('madrugada.half') AS half`,
  );
  expect(rows).toEqual([{ good: 'good', half: null }]);
  expect(await appliedTo(db)).toEqual(['0001_good.sql']);
  await db.drop();
});

test('a database that a newer version has migrated is refused, by init and by a night, and left as it is', async () => {
  const db = await createTestDatabase();
  await db.pool.query(`INSERT INTO madrugada.schema_migration (name, sha256) VALUES ('9999_future.sql', 'x')`);
  const before = await dump(db);
  const refusal = { code: 2, stderr: expect.stringContaining('newer version of madrugada (it has 9999_future.sql') };
  for (const args of [['init'], ['run', '2026-11'], ['worker', '--slot', 'a/1']])
    expect(await runCommand(args, { environment: { DATABASE_URL: db.url } }), args.join(' ')).toMatchObject(refusal);
  expect(await dump(db)).toBe(before);
  await db.drop();
});

test('a database that lacks a migration is refused by a night, which says what to do', async () => {
  const db = await createEmptyDatabase();
  await migrate(db.url, copyMigrations('older', ALL.slice(0, -1)));
  for (const args of [
    ['run', '2026-11'],
    ['worker', '--slot', 'a/1'],
  ])
    expect(await runCommand(args, { environment: { DATABASE_URL: db.url } }), args.join(' ')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('lacks 1 migration(s) of this version; run: madrugada init'),
    });
  await db.drop();
});

test('a migration that was changed after it had been applied is refused', async () => {
  const changed = copyMigrations('changed', ALL);
  writeFileSync(join(changed, VIEWS), `${readFileSync(join(changed, VIEWS), 'utf8')}-- one more word\n`);
  await expect(migrate(migrated.url, changed)).rejects.toThrow(
    `migration ${VIEWS} was changed after it had been applied`,
  );
});

test('other line endings are not another migration', async () => {
  const windows = copyMigrations('windows', ALL);
  for (const name of ALL)
    writeFileSync(join(windows, name), readFileSync(join(windows, name), 'utf8').replaceAll('\n', '\r\n'));
  expect(await migrate(migrated.url, windows)).toEqual({ applied: [] });
});

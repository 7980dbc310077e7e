import { type Client, DatabaseError, type Pool } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { openClient } from './connect.ts';
import { type Migration, migrationsFolder, readMigrations } from './migration-files.ts';

/** The session lock under which migrations run; the number is arbitrary and must never change. */
const MIGRATION_LOCK = 5_203_117_412;

const BOOKKEEPING = `
  CREATE SCHEMA IF NOT EXISTS madrugada;
  CREATE TABLE IF NOT EXISTS madrugada.schema_migration (
    name       text PRIMARY KEY,
    sha256     text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
  );
  GRANT SELECT ON madrugada.schema_migration TO PUBLIC;`;

/**
 * Brings the database at `url` to the schema of this code, as the login user, and names the migrations applied. Each one is a
 * transaction; a second migrator waits for the first and finds nothing to do. Throws a MadrugadaError, with nothing changed, when
 * the database was migrated by a newer version or an applied migration's file was changed.
 */
export async function migrate(url: string, folder: string = migrationsFolder()): Promise<{ applied: string[] }> {
  const migrations = readMigrations(folder);
  const client = await openClient({ url, applicationName: 'madrugada migrate', queryTimeoutMs: 0 });
  try {
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    const applied = await readApplied(client);
    if (applied === undefined) await client.query(BOOKKEEPING);
    const missing = findMissing(migrations, applied ?? new Map());
    for (const migration of missing) await apply(client, migration);
    return { applied: missing.map(({ name }) => name) };
  } finally {
    await client.end();
  }
}

/** Throws a MadrugadaError that says what to do unless the database has exactly the schema of this code. */
export async function requireSchema(database: Client | Pool): Promise<void> {
  const missing = findMissing(readMigrations(migrationsFolder()), (await readApplied(database)) ?? new Map());
  if (missing.length > 0)
    throw new MadrugadaError(`the database lacks ${missing.length} migration(s) of this version; run: madrugada init`);
}

async function readApplied(database: Client | Pool): Promise<Map<string, string> | undefined> {
  const known = await database.query<{ exists: boolean }>(
    `SELECT to_regclass('madrugada.schema_migration') IS NOT NULL AS exists`,
  );
  if (known.rows[0]?.exists !== true) return undefined;
  const { rows } = await database.query<{ name: string; sha256: string }>(
    'SELECT name, sha256 FROM madrugada.schema_migration ORDER BY name',
  );
  return new Map(rows.map(({ name, sha256 }) => [name, sha256]));
}

function findMissing(migrations: Migration[], applied: Map<string, string>): Migration[] {
  const ours = new Map(migrations.map(({ name, sha256 }) => [name, sha256]));
  for (const [name, sha256] of applied) {
    const our = ours.get(name);
    if (our === undefined)
      throw new MadrugadaError(
        `this database was migrated by a newer version of madrugada (it has ${name}, which this version does not know). ` +
          'Nothing was changed: use that version, or another database.',
      );
    if (our !== sha256)
      throw new MadrugadaError(
        `migration ${name} was changed after it had been applied to this database. Nothing was changed: ` +
          'restore the file and put the change into a new migration.',
      );
  }
  return migrations.filter(({ name }) => !applied.has(name));
}

async function apply(client: Client, { name, sql, sha256 }: Migration): Promise<void> {
  await client.query('BEGIN');
  try {
    // First, while we are still the login user: the file may change the role until the end of the transaction.
    await client.query('INSERT INTO madrugada.schema_migration (name, sha256) VALUES ($1, $2)', [name, sha256]);
    await client.query(sql);
    await client.query('COMMIT');
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error; // the connection is gone, and the transaction with it
    await client.query('ROLLBACK');
    throw new MadrugadaError(
      `migration ${name} failed${lineOf(sql, error)}: ${error.message}. It was rolled back.`,
      2,
      {
        cause: error,
      },
    );
  }
}

function lineOf(sql: string, { position }: DatabaseError): string {
  return position === undefined ? '' : ` at line ${sql.slice(0, Number(position)).split('\n').length}`;
}

import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { openClient } from './connect.ts';
import { packageRoot } from './package-root.ts';

interface Migration {
  name: string;
  sql: string;
  sha256: string;
}

/** Serialises migrators of one database: the second waits, then finds nothing left to do. */
const MIGRATION_LOCK = 7_306_093_121_442;

/**
 * Applies db/migrations/NNNN_name.sql in order, each in a transaction of its own, so that one killed half-way leaves no trace. Refuses a
 * database that a newer version has migrated, and one whose applied migrations differ from ours.
 */
export async function migrate(url: string, folder = join(packageRoot(), 'db', 'migrations')): Promise<{ applied: string[] }> {
  const migrations = await readMigrations(folder);
  const client = await openClient({ url, applicationName: 'madrugada/migrate' });
  try {
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await createBookkeeping(client);
    const done = await appliedMigrations(client);
    refuseUnknown(migrations, done);
    const applied: string[] = [];
    for (const migration of migrations) {
      if (done.has(migration.name)) continue;
      await apply(client, migration);
      applied.push(migration.name);
    }
    return { applied };
  } finally {
    await client.end();
  }
}

async function readMigrations(folder: string): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => /^\d{4}_\w+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(join(folder, name), 'utf8');
      return { name, sql, sha256: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

async function createBookkeeping(client: Client): Promise<void> {
  await client.query(`
    CREATE SCHEMA IF NOT EXISTS madrugada;
    CREATE TABLE IF NOT EXISTS madrugada.schema_migration (
      name text PRIMARY KEY, sha256 text NOT NULL, applied_at timestamptz NOT NULL DEFAULT pg_catalog.now())`);
}

async function appliedMigrations(client: Client): Promise<Map<string, string>> {
  const { rows } = await client.query<{ name: string; sha256: string }>('SELECT name, sha256 FROM madrugada.schema_migration');
  return new Map(rows.map((row) => [row.name, row.sha256]));
}

function refuseUnknown(migrations: Migration[], done: Map<string, string>): void {
  const known = new Map(migrations.map((migration) => [migration.name, migration.sha256]));
  for (const [name, sha256] of done) {
    if (!known.has(name))
      throw new MadrugadaError(`this database was migrated by a newer version of madrugada (${name}): update madrugada; nothing was changed`);
    if (known.get(name) !== sha256)
      throw new MadrugadaError(`migration ${name} is not the one that was applied to this database: use the version that migrated it, or another database`);
  }
}

async function apply(client: Client, { name, sql, sha256 }: Migration): Promise<void> {
  await client.query('BEGIN');
  try {
    await client.query(sql);
    await client.query('RESET ROLE'); // the migration may have worked as the schema's owner
    await client.query('INSERT INTO madrugada.schema_migration (name, sha256) VALUES ($1, $2)', [name, sha256]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

import { randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { inject } from 'vitest';
import { openClient, openPool } from '../../src/postgres/connect.ts';
import { urlOfDatabase } from './database-url.ts';

/** A database of one test file: migrated, empty, its own. */
export interface TestDatabase {
  url: string;
  name: string;
  /** Connections of the superuser. */
  pool: Pool;
  /** Ends the pool and drops the database, whoever is still connected. */
  drop(): Promise<void>;
}

/** Clones the migrated template of this test run. */
export function createTestDatabase(): Promise<TestDatabase> {
  return createDatabase(`TEMPLATE ${inject('templateDatabase')}`);
}

/** A database without anything in it, not even the schema. */
export function createEmptyDatabase(): Promise<TestDatabase> {
  return createDatabase('TEMPLATE template0');
}

async function createDatabase(template: string): Promise<TestDatabase> {
  const name = `madrugada_test_${randomBytes(6).toString('hex')}`;
  await onServer(`CREATE DATABASE ${name} ${template}`);
  const url = urlOfDatabase(inject('serverUrl'), name);
  const pool = openPool({ url, applicationName: 'madrugada test', max: 10 });
  return {
    url,
    name,
    pool,
    drop: async () => {
      await pool.end();
      await onServer(`DROP DATABASE ${name} WITH (FORCE)`);
    },
  };
}

async function onServer(statement: string): Promise<void> {
  const client = await openClient({ url: inject('serverUrl'), applicationName: 'madrugada test' });
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

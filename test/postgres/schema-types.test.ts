import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { generateSchemaTypes } from '../support/schema-types.ts';
import { until } from '../support/until.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(async () => {
  // the generator does not wait for its connections to close, and a database dropped under them is an error nobody catches
  await until('the generator to be gone', async () => {
    const { rows } = await db.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = ''`,
    );
    return rows.length === 0;
  });
  await db.drop();
});

test('the generated types are those of the live schema', async () => {
  const kept = await readFile(join(packageRoot(), 'src', 'postgres', 'schema-types.ts'), 'utf8');
  expect(await generateSchemaTypes(db.url), 'the types are out of date: npm run types:generate').toBe(kept);
});

test('a changed column shows in the generated types', async () => {
  const before = await generateSchemaTypes(db.url);
  await db.pool.query('ALTER TABLE madrugada.stop_switch ALTER COLUMN reason DROP NOT NULL');
  expect(await generateSchemaTypes(db.url)).toBe(
    before.replace(/(interface StopSwitch \{[^}]*reason: string);/, '$1 | null;'),
  );
});

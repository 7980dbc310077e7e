import { afterAll, beforeAll, expect, test } from 'vitest';
import { migrate, requireSchema } from '../../src/postgres/migrate.ts';
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../support/database.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db.drop());

test('a clone of the template is up to date', async () => {
  expect(await migrate(db.url)).toEqual({ applied: [] });
  await requireSchema(db.pool);
});

test('two migrators at once apply every migration once', async () => {
  const empty = await createEmptyDatabase();
  const results = await Promise.all([migrate(empty.url), migrate(empty.url)]);
  const { rows } = await empty.pool.query('SELECT name FROM madrugada.schema_migration ORDER BY name');
  expect(results.map(({ applied }) => applied.length).sort()).toEqual([0, rows.length]);
  await empty.drop();
});

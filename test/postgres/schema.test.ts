import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openClient } from '../../src/postgres/connect.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { DUMPED_VERSION, dumpSchema, serverVersion } from '../../src/postgres/schema-dump.ts';
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createEmptyDatabase();
  await migrate(db.url);
});
afterAll(() => db.drop());

test('the migrations build what db/schema.sql says', async ({ skip }) => {
  const client = await openClient({ url: db.url, applicationName: 'madrugada test' });
  try {
    const version = await serverVersion(client);
    skip(
      version !== DUMPED_VERSION,
      `db/schema.sql is printed by PostgreSQL ${DUMPED_VERSION}; this is ${version}, which prints views differently`,
    );
    const golden = await readFile(join(packageRoot(), 'db', 'schema.sql'), 'utf8');
    expect(await dumpSchema(client), 'db/schema.sql is out of date: npm run schema:dump').toBe(golden);
  } finally {
    await client.end();
  }
});

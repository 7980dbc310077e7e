import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openClient } from '../../src/postgres/connect.ts';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { dumpSchema } from '../../src/postgres/schema-dump.ts';
import { withMigratedDatabase } from './scratch-database.ts';

// `npm run schema:dump`: writes db/schema.sql anew.
await withMigratedDatabase(async (url) => {
  const client = await openClient({ url, applicationName: 'madrugada schema dump' });
  writeFileSync(join(packageRoot(), 'db', 'schema.sql'), await dumpSchema(client));
  await client.end();
});

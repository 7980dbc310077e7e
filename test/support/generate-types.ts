import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { generateSchemaTypes } from './schema-types.ts';
import { withMigratedDatabase } from './scratch-database.ts';

// `npm run types:generate`: writes src/postgres/schema-types.ts anew.
await withMigratedDatabase(async (url) => {
  writeFileSync(join(packageRoot(), 'src', 'postgres', 'schema-types.ts'), await generateSchemaTypes(url));
});

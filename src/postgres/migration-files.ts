import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from './package-root.ts';

/** One step of the schema. */
export interface Migration {
  name: string;
  sql: string;
  sha256: string;
}

/** The folder of the migrations this code was written for. */
export function migrationsFolder(): string {
  return join(packageRoot(), 'db', 'migrations');
}

/** All migrations of `folder`, in the order in which they are applied. */
export function readMigrations(folder: string): Migration[] {
  return readdirSync(folder)
    .filter((name) => /^\d{4}_\w+\.sql$/.test(name))
    .sort()
    .map((name) => {
      // Git may check out other line endings; that is not another migration.
      const sql = readFileSync(join(folder, name), 'utf8').replaceAll('\r\n', '\n');
      return { name, sql, sha256: createHash('sha256').update(sql).digest('hex') };
    });
}

import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { openClient } from '../../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { urlOfDatabase } from './database-url.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of a superuser's connection to the server of this test run. */
    serverUrl: string;
    /** Name of the migrated database that test databases are cloned from. */
    templateDatabase: string;
  }
}

/**
 * One server for the whole run: an embedded one in a folder of its own, or the one at `TEST_DATABASE_URL`. Its migrated template is what
 * `createTestDatabase` clones.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const home = await mkdtemp(join(tmpdir(), 'madrugada-test-'));
  await chmod(home, 0o755); // else a server started by root has to live elsewhere, and would not be deleted with this folder
  const given = process.env.TEST_DATABASE_URL;
  const serverUrl = given || (await startEmbedded(join(home, 'home'))).url;
  const templateDatabase = `madrugada_template_${process.pid}`;
  // A test must not reach anybody's database or provider by accident.
  for (const name of ['DATABASE_URL', 'MADRUGADA_HOME', 'ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL'])
    delete process.env[name];

  await onServer(serverUrl, `CREATE DATABASE ${templateDatabase}`);
  await migrate(urlOfDatabase(serverUrl, templateDatabase));
  project.provide('serverUrl', serverUrl);
  project.provide('templateDatabase', templateDatabase);

  return async () => {
    if (given) await onServer(serverUrl, `DROP DATABASE ${templateDatabase} WITH (FORCE)`);
    else await stopEmbedded(join(home, 'home'));
    await rm(home, { recursive: true });
  };
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = await openClient({ url, applicationName: 'madrugada test setup' });
  await client.query(statement);
  await client.end();
}

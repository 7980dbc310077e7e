import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { type CommandResult, runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let db: TestDatabase;
let folder: string;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db.drop());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'madrugada-config-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Runs a command in a folder with this `madrugada.config.ts`. */
function inFolder(config: string, args: string[], environment: Record<string, string> = {}): Promise<CommandResult> {
  writeFileSync(join(folder, 'madrugada.config.ts'), config);
  return runCommand(args, { folder, environment });
}

const say = (settings: object) => `export default ${JSON.stringify(settings)};\n`;

test('the file says which database is used, and the environment wins over it', async () => {
  const config = say({ databaseUrl: 'postgres://file@127.0.0.1/nights' });
  expect((await inFolder(config, ['db', 'url'])).stdout).toBe('postgres://file@127.0.0.1/nights\n');
  const environment = { DATABASE_URL: 'postgres://environment@127.0.0.1/nights' };
  expect((await inFolder(config, ['db', 'url'], environment)).stdout).toBe(`${environment.DATABASE_URL}\n`);
});

test('the file is typed by defineConfig of the public API', async () => {
  const config = `
    import { defineConfig } from '${join(packageRoot(), 'src', 'index.ts')}';
    const host: string = '127.0.0.1';
    export default defineConfig({ databaseUrl: \`postgres://\${host}/nights\`, workers: 2 });`;
  expect((await inFolder(config, ['db', 'url'])).stdout).toBe('postgres://127.0.0.1/nights\n');
});

test('the file says where the embedded server lives', async () => {
  mkdirSync(join(folder, 'elsewhere', 'postgres'), { recursive: true });
  writeFileSync(
    join(folder, 'elsewhere', 'postgres.json'),
    JSON.stringify({ data: 'postgres', port: 0, password: 'x' }),
  );
  writeFileSync(join(folder, 'elsewhere', 'postgres', 'PG_VERSION'), '12\n'); // so that the command says where it looked
  const { stderr } = await inFolder(say({ home: 'elsewhere' }), ['db', 'start']);
  expect(stderr).toContain(`${join(folder, 'elsewhere', 'postgres')} belongs to PostgreSQL 12`);
});

test('a look-up in the file that is no URL with a place for the tag is refused before anything starts', async () => {
  const batch = await loadTestBatch(db);
  const config = say({ databaseUrl: db.url, lookUp: 'gateway.example/{tag}' });
  const { code, stderr } = await inFolder(config, ['run', batch, '--workers', '1']);

  expect(code).toBe(2);
  expect(stderr).toContain('MADRUGADA_LOOK_UP must be a URL');
  expect(stderr).toContain('not "gateway.example/{tag}"');
});

test('the file gives defaults of flags, and a flag wins over it', async () => {
  const config = say({ databaseUrl: db.url, workers: 1, concurrency: 2 });
  const slots = async (batch: string) => {
    const { rows } = await db.pool.query<{ slot: string }>(
      `SELECT DISTINCT a.slot FROM madrugada.attempt a JOIN madrugada.task t ON t.id = a.task_id WHERE t.batch_key = $1`,
      [batch],
    );
    return rows.map(({ slot }) => slot);
  };
  const first = await loadTestBatch(db, { tasks: 4 });
  expect(await inFolder(config, ['run', first, '--simulate', '--slot', 'host'])).toMatchObject({ code: 0 });
  for (const slot of await slots(first)) expect(['host/1.1', 'host/1.2']).toContain(slot);
  const second = await loadTestBatch(db, { tasks: 4 });
  const flags = ['--simulate', '--slot', 'host', '--concurrency', '1'];
  expect(await inFolder(config, ['run', second, ...flags])).toMatchObject({ code: 0 });
  expect(await slots(second)).toEqual(['host/1']);
  const workers = await db.pool.query('SELECT FROM madrugada.worker');
  expect(workers.rowCount, 'one worker process a night').toBe(2);
});

test('limits in the file reach the workers', async () => {
  const config = say({ databaseUrl: db.url, dispatchSeconds: 5 });
  const batch = await loadTestBatch(db);
  expect(await inFolder(config, ['run', batch, '--simulate', '--workers', '1'])).toMatchObject({ code: 0 });
  const { rows } = await db.pool.query(
    `SELECT deadline_at - sent_at < '10 seconds' AS short FROM madrugada.call_intent WHERE batch_key = $1`,
    [batch],
  );
  expect(rows).toEqual([{ short: true }]);
});

test.for<[string, string, string]>([
  ['an unknown setting', say({ workerz: 4 }), 'Unrecognized key: "workerz". It may say: databaseUrl, home,'],
  ['a key for the provider', say({ apiKey: 'secret' }), 'Unrecognized key: "apiKey"'],
  ['a setting of the wrong kind', say({ workers: 0 }), 'workers: Too small'],
  ['no default export', 'export const workers = 4;', 'Invalid input: expected object, received undefined'],
  ['what is no TypeScript', 'export default {', 'cannot be loaded: '],
])('%s is refused, with the name of the file', async ([, config, message]) => {
  const { code, stderr } = await inFolder(config, ['db', 'url'], { DATABASE_URL: db.url });
  expect(code).toBe(2);
  expect(stderr).toContain(join(folder, 'madrugada.config.ts'));
  expect(stderr).toContain(message);
});

test('help is given whatever the file says', async () => {
  expect(await inFolder(say({ workerz: 4 }), ['db', '--help'])).toMatchObject({ code: 0 });
});

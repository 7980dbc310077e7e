import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { type CommandResult, runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let db: TestDatabase;
let folder: string;
beforeAll(async () => {
  db = await createTestDatabase();
  folder = mkdtempSync(join(tmpdir(), 'madrugada-psql-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await db.drop();
});

/** `madrugada db psql` where no psql is installed, or the one in `path`. */
function psql(
  args: string[],
  { input, path = folder }: { input?: string; path?: string } = {},
): Promise<CommandResult> {
  const environment = { DATABASE_URL: db.url, PATH: path };
  return runCommand(['db', 'psql', ...args], { environment, ...(input !== undefined && { input }) });
}

function writeScript(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

test('an installed psql gets the database and the arguments, and the password by its environment only', async () => {
  const bin = mkdtempSync(join(folder, 'bin-'));
  writeFileSync(join(bin, 'psql'), '#!/bin/sh\nprintf "%s\\n" "$@" "password $PGPASSWORD" "$PGOPTIONS"\nexit 3\n');
  chmodSync(join(bin, 'psql'), 0o755);
  const { code, stdout } = await psql(['-At', '-c', 'SELECT 1'], { path: bin });
  const url = new URL(db.url);
  const { password } = url;
  url.password = '';
  expect(code).toBe(3);
  expect(stdout.split('\n')).toEqual([
    '-d',
    url.href,
    '-At',
    '-c',
    'SELECT 1',
    `password ${password}`,
    '-c search_path=madrugada,public',
    '',
  ]);
});

test('without psql the audit scripts run, with their variable', async () => {
  const batch = await loadTestBatch(db, { tasks: 3 });
  const script = join(packageRoot(), 'db', 'audit', '03-task-charges.sql');
  const { code, stdout } = await psql(['-v', `batch=${batch}`, '-f', script]);
  expect(code).toBe(0);
  expect(stdout).toContain('position  item  state');
  expect(stdout).toContain('(3 rows)');
});

test('without psql a table is printed aligned, unaligned, or without its heading', async () => {
  const sql = `SELECT 1 AS n, 'é' AS word, NULL AS nothing UNION ALL SELECT 20, 'b', 'x' ORDER BY 1`;
  expect((await psql(['-c', sql])).stdout).toBe(' n  word  nothing\n 1  é\n20  b     x\n(2 rows)\n\n');
  expect((await psql(['-A', '-c', sql])).stdout).toBe('n|word|nothing\n1|é|\n20|b|x\n');
  expect((await psql(['-At', '-c', sql])).stdout).toBe('1|é|\n20|b|x\n');
});

test('without psql the tables are found without their schema', async () => {
  expect(await psql(['-At', '-c', `SELECT count(*) > 0 FROM model_price`])).toMatchObject({ code: 0, stdout: 't\n' });
});

test('without psql a script is read from standard input', async () => {
  const input = `\\set n 2\n\\echo 'counted to' :n\nSELECT :n;\n\\quit\nSELECT 3;\n`;
  expect(await psql(['-At'], { input })).toMatchObject({ code: 0, stdout: 'counted to 2\n2\n' });
});

test('without psql the first failing statement ends the script and is named with its line', async () => {
  const script = writeScript(
    'failing.sql',
    `CREATE TABLE public.made ();\n\nSELECT nothing\n  FROM public.made;\nDROP TABLE public.made;\n`,
  );
  const { code, stderr } = await psql(['-f', script]);
  expect(code).toBe(2);
  expect(stderr).toBe(`madrugada: ${script}:3: column "nothing" does not exist\n`);
  expect((await db.pool.query(`SELECT to_regclass('public.made') AS made`)).rows).toEqual([{ made: 'public.made' }]);
});

test('without psql, what only psql can do is refused by name', async () => {
  expect(await psql(['-f', writeScript('meta.sql', 'SELECT 1;\n\\dt\n')])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('meta.sql:2: \\dt needs psql itself'),
  });
  expect(await psql(['--csv', '-c', 'SELECT 1'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('psql is not installed here, and the small one knows -c, -f'),
  });
});

test('without psql a missing script is named', async () => {
  expect(await psql(['-f', 'absent.sql'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('absent.sql cannot be read'),
  });
});

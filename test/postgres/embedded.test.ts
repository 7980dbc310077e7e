import { spawn } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { openClient } from '../../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { findPostmaster } from '../../src/postgres/postmaster.ts';
import { serverAccount } from '../../src/postgres/server-account.ts';
import { readRecord } from '../../src/postgres/server-record.ts';
import { type CommandOptions, runCommand, startCommand } from '../support/command.ts';
import { until } from '../support/until.ts';

const isRoot = process.getuid?.() === 0;
let folder: string;
let home: string;
let homes = 0;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'madrugada-embedded-'));
  chmodSync(folder, 0o755); // a server that root starts must reach it
});
beforeEach(() => {
  homes += 1;
  home = join(folder, `home ${homes} de João, às 3 h`); // no start may trip over blanks and accents
});
afterEach(() => stopEmbedded(home));
afterAll(() => rmSync(folder, { recursive: true }));

const inHome = (): CommandOptions => ({ environment: { MADRUGADA_HOME: home } });
const data = () => join(home, 'postgres');
const drafts = () => (existsSync(home) ? readdirSync(home).filter((name) => name.startsWith('postgres.draft')) : []);
const serverPid = () => findPostmaster(data())?.pid;

async function query<T>(url: string, sql: string): Promise<T[]> {
  const client = await openClient({ url, applicationName: 'madrugada test' });
  try {
    const { rows } = await client.query<{ value: T }>(sql);
    return rows.map(({ value }) => value);
  } finally {
    await client.end();
  }
}

test('commands that need the server at once get the same one', async () => {
  const results = await Promise.all([1, 2, 3].map(() => runCommand(['db', 'start', '--json'], inHome())));
  expect(results.map(({ code }) => code)).toEqual([0, 0, 0]);
  const documents = results.map(({ stdout }) => JSON.parse(stdout) as { port: number; started: boolean });
  expect(new Set(documents.map(({ port }) => port)).size).toBe(1);
  expect(documents.filter(({ started }) => started)).toHaveLength(1);
});

test('the server outlives its command, keeps UTF-8 in the order of code points, and listens on loopback only', async () => {
  const { stdout } = await runCommand(['db', 'url'], inHome());
  const url = stdout.trim();
  expect(new URL(url).hostname).toBe('127.0.0.1');
  expect(
    await query(
      url,
      `SELECT current_setting('server_encoding') || ' ' || datcollate || ' ' || current_setting('listen_addresses') AS value
         FROM pg_database WHERE datname = current_database()`,
    ),
  ).toEqual(['UTF8 C 127.0.0.1']);
});

test('the password is generated, demanded, and kept in a file of its owner alone', async () => {
  const started = await runCommand(['db', 'start'], inHome());
  const record = readRecord(home);
  const { stdout } = await runCommand(['db', 'url'], inHome());
  expect(record?.password).toMatch(/^[\w-]{32}$/);
  expect(stdout).toBe(`postgres://postgres:${record?.password}@127.0.0.1:${record?.port}/madrugada\n`);
  expect(started.stdout + started.stderr).not.toContain(record?.password);
  for (const file of ['postgres.json', 'postgres.log']) expect(statSync(join(home, file)).mode & 0o777).toBe(0o600);
  const other = stdout.trim().replace(record?.password ?? '', 'another');
  await expect(query(other, 'SELECT 1 AS value')).rejects.toThrow('password authentication failed');
});

test('a stopped server comes back on the port it had, with its data', async () => {
  const first = await startEmbedded(home);
  await query(first.url, 'CREATE TABLE public.kept AS SELECT 1 AS value');
  for (const mode of ['fast', 'immediate'] as const) {
    expect(await stopEmbedded(home, mode)).toBe(true);
    const again = await startEmbedded(home);
    expect(again).toEqual({ url: first.url, port: first.port, started: true });
    expect(await query(again.url, 'SELECT value FROM public.kept')).toEqual([1]);
  }
});

test('stopping what does not run is no error', async () => {
  expect(await runCommand(['db', 'stop'], inHome())).toMatchObject({ code: 0, stdout: 'was not running\n' });
});

test('a server killed with SIGKILL is started again over the pid file it left', async () => {
  const first = await startEmbedded(home);
  await query(first.url, 'CREATE TABLE public.kept AS SELECT 1 AS value');
  const killed = serverPid() ?? 0;
  process.kill(killed, 'SIGKILL');
  await until('the server is gone', () => serverPid() === undefined);
  expect(readFileSync(join(data(), 'postmaster.pid'), 'utf8')).toMatch(new RegExp(`^${killed}\n`));
  const { code, stdout } = await runCommand(['db', 'url'], inHome());
  expect({ code, url: stdout.trim() }).toEqual({ code: 0, url: first.url });
  expect(await query(first.url, 'SELECT value FROM public.kept')).toEqual([1]);
});

test('a server killed while a session of it goes on is started again once that session has ended', async () => {
  const { url } = await startEmbedded(home);
  const client = await openClient({ url, applicationName: 'madrugada test' });
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  const survivor = rows[0]?.pid ?? 0;
  process.kill(survivor, 'SIGSTOP'); // else it would end at once
  const killed = serverPid() ?? 0;
  process.kill(killed, 'SIGKILL');
  await until('the server is gone', () => serverPid() === undefined);

  const again = startCommand(['db', 'url'], inHome());
  const log = join(home, 'postgres.log');
  await until('a start is refused', () => readFileSync(log, 'utf8').includes('pre-existing shared memory block'));
  process.kill(survivor, 'SIGCONT');
  const { code, stdout } = await again.result;
  expect({ code, url: stdout.trim() }).toEqual({ code: 0, url });
  await client.end();
});

test('a pid file whose process id belongs to another program by now does not stop the start', async () => {
  await startEmbedded(home);
  const file = join(data(), 'postmaster.pid');
  const left = readFileSync(file, 'utf8');
  await stopEmbedded(home);
  // of the server's account: other people's processes Postgres does not take for its own
  const other = spawn('sleep', ['infinity'], { stdio: 'ignore', ...serverAccount() });
  try {
    writeFileSync(file, left.replace(/^\d+/, String(other.pid)));
    const { url, started } = await startEmbedded(home);
    expect(started).toBe(true);
    expect(await query(url, 'SELECT 1 AS value')).toEqual([1]);
    expect(other.exitCode ?? other.signalCode).toBeNull();
  } finally {
    other.kill('SIGKILL');
  }
});

test('a port that somebody else has taken is replaced, and the new one is kept', async () => {
  const first = await startEmbedded(home);
  await stopEmbedded(home);
  const other = createServer();
  await new Promise<void>((listening) => other.listen(first.port, '127.0.0.1', listening));
  try {
    const second = await startEmbedded(home);
    expect(second.port).not.toBe(first.port);
    expect(await query(second.url, 'SELECT 1 AS value')).toEqual([1]);
    expect(readRecord(home)?.port).toBe(second.port);
  } finally {
    other.close();
  }
});

test('a data directory of another major version is refused, and nothing in it is touched', async () => {
  await startEmbedded(home);
  await stopEmbedded(home);
  const version = join(data(), 'PG_VERSION');
  writeFileSync(version, '17\n');
  const contents = () => [statSync(data()).mtimeMs, statSync(version).mtimeMs, statSync(home).mtimeMs];
  const before = contents();
  const { code, stderr } = await runCommand(['db', 'start'], inHome());
  expect(code).toBe(2);
  expect(stderr).toContain('belongs to PostgreSQL 17, and this version of madrugada brings PostgreSQL 18');
  expect(stderr).toContain('set DATABASE_URL');
  expect(contents()).toEqual(before);
});

test('Ctrl-C ends the command that started the server, and not the server', async () => {
  expect(await runCommand(['init'], inHome())).toMatchObject({ code: 0 });
  await stopEmbedded(home);
  const worker = startCommand(['worker', '--slot', 'a/1'], { ...inHome(), group: true });
  const url = await until('the worker has started the server', () => {
    const record = readRecord(home);
    return (
      findPostmaster(data())?.ready === true &&
      record &&
      `postgres://postgres:${record.password}@127.0.0.1:${record.port}/madrugada`
    );
  });
  const server = serverPid();
  await until(
    'the worker works',
    async () => (await query(url, 'SELECT id AS value FROM madrugada.worker')).length > 0,
  );
  process.kill(-(worker.process.pid ?? 0), 'SIGINT');
  expect(await worker.result).toMatchObject({ code: 130 });
  expect(await query(url, 'SELECT ended_how AS value FROM madrugada.worker')).toEqual(['stopped by SIGINT']);
  expect(serverPid()).toBe(server);
});

test('a command killed while it creates the server leaves nothing in the way of the next', async () => {
  const killed = startCommand(['db', 'start'], { ...inHome(), group: true });
  await until('the creation is under way', () => drafts().length > 0);
  process.kill(-(killed.process.pid ?? 0), 'SIGKILL');
  await killed.result;
  const { url } = await startEmbedded(home);
  expect(await query(url, 'SELECT 1 AS value')).toEqual([1]);
  expect(drafts()).toEqual([]);
});

test('with DATABASE_URL set no server is started', async () => {
  const url = 'postgres://me:secret@db.example/nights';
  const { code, stdout } = await runCommand(['db', 'url'], {
    environment: { MADRUGADA_HOME: home, DATABASE_URL: url },
  });
  expect({ code, stdout }).toEqual({ code: 0, stdout: `${url}\n` });
  expect(statSync(home, { throwIfNoEntry: false })).toBeUndefined();
});

test('root keeps the data of a closed home where the server’s account can reach it', async ({ skip }) => {
  skip(!isRoot, 'only root borrows another account for the server');
  const closed = join(folder, 'closed');
  mkdirSync(closed, { mode: 0o700 });
  home = join(closed, 'home');
  const { url, port } = await startEmbedded(home);
  const directory = readRecord(home)?.data ?? '';
  try {
    expect(directory).toMatch(/^\/var\/lib\/madrugada\//);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect(statSync(directory).uid).not.toBe(0);
    expect(await query(url, 'SELECT 1 AS value')).toEqual([1]);
    expect(await startEmbedded(home)).toEqual({ url, port, started: false });
  } finally {
    await stopEmbedded(home);
    rmSync(join(directory, '..'), { recursive: true });
  }
});

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { attestClock } from '../../src/postgres/attest-clock.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { serverAccount } from '../../src/postgres/server-account.ts';
import { type BareServer, freePort, hasMemoryFolder, startBareServer } from '../support/bare-server.ts';
import { runCommand } from '../support/command.ts';
import { type Check, examine } from '../support/examine.ts';
import { until } from '../support/until.ts';

let server: BareServer;
beforeAll(async () => {
  server = await startBareServer('disk');
});
afterAll(() => server.stop());

/** The findings of the server with these settings, which are taken back afterwards. */
async function withSettings(settings: Record<string, string>) {
  await server.configure(settings);
  try {
    return await examine(server.url);
  } finally {
    await server.configure(Object.fromEntries(Object.keys(settings).map((name) => [name, undefined])));
  }
}

async function onServer(sql: string): Promise<void> {
  const client = await openClient({ url: server.url, applicationName: 'madrugada test' });
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

const find = ({ document }: { document: { checks: Check[] } }, name: string) =>
  document.checks.find(({ check }) => check === name);

for (const [setting, next] of [
  ['fsync', 'set fsync = on, and reload'],
  ['full_page_writes', 'set full_page_writes = on, and reload'],
] as const)
  test(`a server with ${setting} off cannot keep the promises`, async () => {
    const examined = await withSettings({ [setting]: 'off' });
    expect(examined.code).toBe(1);
    expect(find(examined, setting)).toMatchObject({ level: 'fail', next });
  });

test('a server whose settings are mended fails no more', async () => {
  await withSettings({ fsync: 'off' });
  expect(await examine(server.url)).toMatchObject({ code: 0, document: { ok: true } });
});

test('a server whose data lies in memory cannot keep the promises', async ({ skip }) => {
  skip(!hasMemoryFolder, 'there is no /dev/shm here');
  const inMemory = await startBareServer('memory');
  onTestFinished(() => inMemory.stop());
  const examined = await examine(inMemory.url);

  expect(examined.code).toBe(1);
  expect(find(examined, 'storage')).toMatchObject({
    level: 'fail',
    seen: `${inMemory.data} is on tmpfs: a restart loses all of it`,
  });
});

test('a standby that was to have everything and is not connected is a warning', async () => {
  const examined = await withSettings({ synchronous_standby_names: 'nobody' });
  expect(examined.code).toBe(0);
  expect(find(examined, 'synchronous standby')).toMatchObject({
    level: 'warn',
    seen: 'none of "nobody" is connected: commits wait for it',
  });
});

test('a worker that is a member of the owner is found, though nothing is granted to it', async () => {
  await onServer('GRANT madrugada_owner TO madrugada_worker');
  const examined = await examine(server.url);
  await onServer('REVOKE madrugada_owner FROM madrugada_worker');

  expect(examined.code).toBe(1);
  expect(find(examined, 'rights granted')?.level).toBe('ok');
  expect(find(examined, 'rights in effect')).toMatchObject({
    level: 'fail',
    seen: expect.stringContaining('for madrugada_worker'),
  });
});

test('a worker’s role that is a superuser is found', async () => {
  await onServer('ALTER ROLE madrugada_worker SUPERUSER');
  const examined = await examine(server.url);
  await onServer('ALTER ROLE madrugada_worker NOSUPERUSER');

  expect(find(examined, 'schema')).toMatchObject({
    level: 'fail',
    seen: 'not as the migrations made it: ROLE madrugada_worker',
  });
  expect(find(examined, 'rights in effect')?.level).toBe('fail');
});

for (const [apart, level] of [
  [0, 'ok'],
  [20_000, 'warn'],
  [-20_000, 'warn'],
  [60_000, 'fail'],
] as const)
  test(`clocks ${apart / 1000} s apart: ${level}`, async () => {
    const client = await openClient({ url: server.url, applicationName: 'madrugada test' });
    const finding = await attestClock(client, () => Date.now() + apart);
    await client.end();
    expect(finding.level).toBe(level);
  });

const hasPgBouncer = spawnSync('pgbouncer', ['--version']).status === 0;
const NO_POOLER = 'pgbouncer is not installed';

/** A real PgBouncer in transaction mode before the server. */
async function startPooler(settings: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'madrugada-pooler-'));
  chmodSync(folder, 0o755);
  const port = await freePort();
  const file = join(folder, 'pgbouncer.ini');
  const target = `host=127.0.0.1 port=${server.port} dbname=madrugada user=postgres password=${server.password}`;
  writeFileSync(
    file,
    `[databases]\nmadrugada = ${target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}\nunix_socket_dir =\n` +
      `auth_type = any\npool_mode = transaction\n${settings}\n`,
  );
  const pooler: ChildProcess = spawn('pgbouncer', [file], { stdio: 'ignore', ...serverAccount() });
  onTestFinished(async () => {
    const ended = once(pooler, 'exit');
    pooler.kill('SIGKILL');
    await ended;
    rmSync(folder, { recursive: true });
  });
  const url = `postgres://postgres:any@127.0.0.1:${port}/madrugada`;
  await until('the pooler listens', async () => {
    const { stderr } = await runCommand(['doctor'], { environment: { DATABASE_URL: url } });
    return !stderr.includes('ECONNREFUSED');
  });
  return url;
}

test('a pooler that refuses session settings is named', async ({ skip }) => {
  skip(!hasPgBouncer, NO_POOLER);
  const url = await startPooler('');
  const { code, stderr } = await runCommand(['doctor'], { environment: { DATABASE_URL: url } });

  expect(code).toBe(3);
  expect(stderr).toContain('it is a pooler such as PgBouncer; set DATABASE_URL to the server itself');
});

test('a transaction pooler that drops session settings is named, with what it drops', async ({ skip }) => {
  skip(!hasPgBouncer, NO_POOLER);
  const url = await startPooler('ignore_startup_parameters = options,extra_float_digits');
  const examined = await examine(url);

  expect(examined.code).toBe(1);
  expect(find(examined, 'direct connection')).toMatchObject({
    level: 'fail',
    seen: expect.stringContaining('a transaction pooler'),
  });
  expect(find(examined, 'roles of connections')).toMatchObject({
    level: 'fail',
    seen: expect.stringContaining('asks for the role madrugada_worker runs as postgres'),
  });
});

test('a pooler with a single session, in which one connection waits for another, is named', async ({ skip }) => {
  skip(!hasPgBouncer, NO_POOLER);
  const url = await startPooler('ignore_startup_parameters = options,extra_float_digits\ndefault_pool_size = 1');
  const examined = await examine(url);

  expect(examined.code).toBe(1);
  expect(find(examined, 'direct connection')).toMatchObject({
    level: 'fail',
    seen: 'a pooler lets one connection wait for another',
  });
});

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openClient } from '../../src/postgres/connect.ts';
import { createCluster } from '../../src/postgres/create-cluster.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { serverAccount } from '../../src/postgres/server-account.ts';
import { serverBinaries } from '../../src/postgres/server-binaries.ts';
import { serverEnvironment } from '../../src/postgres/server-environment.ts';
import { until } from './until.ts';

/** A Postgres of one's own, migrated, without any of the settings that the embedded server insists on. */
export interface BareServer {
  url: string;
  port: number;
  data: string;
  password: string;
  /** Changes settings as a careless administrator does (ALTER SYSTEM, reload); undefined: back to the default. */
  configure(settings: Record<string, string | undefined>): Promise<void>;
  stop(): Promise<void>;
}

const MEMORY = '/dev/shm';

/** Is there a file system in memory for a server to lie on? */
export const hasMemoryFolder = existsSync(MEMORY);

/** Starts one, on the disk or in memory. */
export async function startBareServer(where: 'disk' | 'memory'): Promise<BareServer> {
  const account = serverAccount();
  const folder = mkdtempSync(join(where === 'memory' ? MEMORY : tmpdir(), 'madrugada-bare-'));
  chmodSync(folder, 0o755);
  if (account) chownSync(folder, account.uid, account.gid);
  const data = join(folder, 'data');
  const password = 'bare';
  const binaries = serverBinaries(account);
  await createCluster(data, password, binaries, account);
  const port = await freePort();
  const args = ['-D', data, '-p', String(port), '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='];
  const server = spawn(binaries.postgres, [...args, '-c', 'shared_buffers=16MB'], {
    cwd: '/',
    env: serverEnvironment(),
    stdio: 'ignore',
    ...account,
  });
  const url = `postgres://postgres:${password}@127.0.0.1:${port}/madrugada`;
  await until('the server accepts connections', () => isUp(url, server));
  await migrate(url);
  return {
    ...{ url, port, data, password },
    configure: (settings) => configure(url, settings),
    async stop() {
      const ended = once(server, 'exit');
      server.kill('SIGINT'); // fast
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

async function isUp(url: string, server: ChildProcess): Promise<boolean> {
  if (server.exitCode !== null) throw new Error(`the server ended with ${server.exitCode}`);
  try {
    await (await openClient({ url, applicationName: 'madrugada test' })).end();
    return true;
  } catch {
    return false;
  }
}

async function configure(url: string, settings: Record<string, string | undefined>): Promise<void> {
  const client = await openClient({ url, applicationName: 'madrugada test' });
  try {
    for (const [name, value] of Object.entries(settings))
      await client.query(
        value === undefined
          ? `ALTER SYSTEM RESET ${name}`
          : `ALTER SYSTEM SET ${name} = ${client.escapeLiteral(value)}`,
      );
    await client.query('SELECT pg_reload_conf()');
  } finally {
    await client.end();
  }
  await until('the settings are in force', () => areInForce(url, settings));
}

/** A reload reaches a process by a signal, in its own time. */
async function areInForce(url: string, settings: Record<string, string | undefined>): Promise<boolean> {
  const client = await openClient({ url, applicationName: 'madrugada test' });
  try {
    const { rows } = await client.query<{ name: string; setting: string; same: boolean }>(
      'SELECT name, setting, setting = boot_val AS same FROM pg_settings WHERE name = ANY ($1)',
      [Object.keys(settings)],
    );
    return rows.every(({ name, setting, same }) => (settings[name] === undefined ? same : settings[name] === setting));
  } finally {
    await client.end();
  }
}

/** A port that nobody listens on at this moment. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

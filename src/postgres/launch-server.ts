import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { MadrugadaError } from '../errors.ts';
import { findPostmaster } from './postmaster.ts';
import type { ServerAccount } from './server-account.ts';
import { serverEnvironment } from './server-environment.ts';

const POLL_MS = 20;
const LOG_LIMIT_BYTES = 10 * 1024 * 1024;

/** What the promises rest on; not left to a configuration file. */
const ENFORCED = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
};

/** What a launch needs to know. */
export interface Launch {
  postgres: string;
  data: string;
  port: number;
  log: string;
  account: ServerAccount | undefined;
}

/** The server did not start, because sessions of the one before, which was killed, still have its memory in use. */
export class SurvivorsLeft extends MadrugadaError {}

/**
 * Starts the server in a session of its own, so that Ctrl-C on the command that started it does not reach it, and returns when
 * it accepts connections, however long recovery takes. Rejects if the server ends instead, with the end of its log.
 */
export async function launchServer({ postgres, data, port, log, account }: Launch): Promise<void> {
  if (existsSync(log) && statSync(log).size > LOG_LIMIT_BYTES) renameSync(log, `${log}.1`);
  const output = openSync(log, 'a', 0o600);
  const logged = statSync(log).size;
  const args = ['-D', data, '-p', String(port)];
  for (const [name, value] of Object.entries(ENFORCED)) args.push('-c', `${name}=${value}`);
  const child = spawn(postgres, args, {
    cwd: '/',
    env: serverEnvironment(),
    detached: true,
    stdio: ['ignore', output, output],
    ...account,
  });
  closeSync(output);
  let ended: string | undefined;
  child.once('error', (error) => {
    ended = error.message;
  });
  child.once('exit', (code, signal) => {
    ended = `it ended with ${signal ?? `exit code ${code}`}`;
  });
  child.unref();

  while (findPostmaster(data)?.ready !== true) {
    if (ended !== undefined) throw launchError(ended, log, logged);
    await delay(POLL_MS);
  }
}

/** Waits until the server on `data`, which another process is starting, accepts connections or is gone. */
export async function awaitReady(data: string): Promise<boolean> {
  for (;;) {
    const postmaster = findPostmaster(data);
    if (postmaster === undefined) return false;
    if (postmaster.ready) return true;
    await delay(POLL_MS);
  }
}

function launchError(reason: string, log: string, from: number): MadrugadaError {
  const lines = readFileSync(log).subarray(from).toString('utf8').trim().split('\n').slice(-8).join('\n');
  const Kind = lines.includes('pre-existing shared memory block') ? SurvivorsLeft : MadrugadaError;
  return new Kind(`the embedded database server did not start: ${reason}. The end of ${log}:\n${lines}`, 3);
}

/** Could a server listen on this port of 127.0.0.1? */
export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)));
  });
}

/** A port of 127.0.0.1 that nobody listened on a moment ago. */
export function findFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen({ port: 0, host: '127.0.0.1' }, () => {
      const address = probe.address();
      probe.close(() =>
        address !== null && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}

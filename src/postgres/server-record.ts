import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { MadrugadaError } from '../errors.ts';

/** What a home remembers of its server: `postgres.json`, readable by its owner only. */
export interface ServerRecord {
  /** Absolute, or relative to the home, so that a home can be moved. */
  data: string;
  port: number;
  password: string;
}

/** A record for a server that does not exist yet. */
export function newRecord(data: string): ServerRecord {
  return { data, port: 0, password: randomBytes(24).toString('base64url') };
}

/** The record of this home, or undefined if no server was ever set up here. */
export function readRecord(home: string): ServerRecord | undefined {
  const file = recordFile(home);
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ServerRecord;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw new MadrugadaError(`${file} cannot be read: restore it from a backup; it holds the database's password`, 2, {
      cause: error,
    });
  }
}

/** Replaces the record whole: a crash leaves the old one or the new one. */
export function writeRecord(home: string, record: ServerRecord): void {
  const draft = `${recordFile(home)}.new`;
  const descriptor = openSync(draft, 'w', 0o600);
  try {
    writeSync(descriptor, `${JSON.stringify(record, null, 2)}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(draft, recordFile(home));
}

/** The data directory, absolute. */
export function dataDirectory(home: string, record: ServerRecord): string {
  return isAbsolute(record.data) ? record.data : resolve(home, record.data);
}

/** The URL of the database `madrugada` on the server of this record, password included. */
export function recordUrl({ port, password }: ServerRecord): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/madrugada`;
}

function recordFile(home: string): string {
  return join(home, 'postgres.json');
}

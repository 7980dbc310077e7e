import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';

const SQLITE_BUSY = 5;
const POLL_MS = 25;

/**
 * Runs `work` while no other process starts or stops the server of this home. The lock is SQLite's, on an empty database:
 * the operating system frees it with its holder, however that one ends, so that there is no stale lock to judge.
 */
export async function withStartLock<T>(home: string, work: () => Promise<T>): Promise<T> {
  const file = new DatabaseSync(join(home, 'start.lock'), { timeout: 0 });
  try {
    while (!tryLock(file)) await delay(POLL_MS);
    return await work();
  } finally {
    file.close();
  }
}

function tryLock(file: DatabaseSync): boolean {
  try {
    file.exec('BEGIN EXCLUSIVE');
    return true;
  } catch (error) {
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) return false;
    throw error;
  }
}

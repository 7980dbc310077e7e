import type { PoolClient } from 'pg';
import { onTestFinished } from 'vitest';
import type { TestDatabase } from './database.ts';

/** A transaction that a test keeps open, to end it when the moment has come. */
export interface OpenTransaction {
  client: PoolClient;
  commit(): Promise<void>;
  /** What a crash of its client amounts to. */
  rollback(): Promise<void>;
}

/** Begins a transaction of the superuser's; a test that fails in between leaves nothing locked. */
export async function openTransaction({ pool }: TestDatabase): Promise<OpenTransaction> {
  const client = await pool.connect();
  await client.query('BEGIN');
  let isOpen = true;
  const end = async (how: 'COMMIT' | 'ROLLBACK') => {
    if (!isOpen) return;
    isOpen = false;
    await client.query(how);
    client.release();
  };
  onTestFinished(() => end('ROLLBACK'));
  return { client, commit: () => end('COMMIT'), rollback: () => end('ROLLBACK') };
}

import { userInfo } from 'node:os';
import type { ClientBase } from 'pg';

/** What a person gives with a command, for the audit trail. */
export type Said = { readonly by?: string | undefined; readonly reason?: string | undefined };

/**
 * Runs `work` in one transaction whose audit rows carry the name and reason given and the operating system's user. Commits when it resolves,
 * rolls back when it rejects, with the error of `work`.
 */
export async function asPerson<T>(client: ClientBase, said: Said, work: () => Promise<T>): Promise<T> {
  await client.query('BEGIN');
  try {
    await client.query(
      `SELECT set_config('madrugada.by', $1, true), set_config('madrugada.reason', $2, true), set_config('madrugada.os_user', $3, true)`,
      [said.by ?? '', said.reason ?? '', osUser()],
    );
    const result = await work();
    await client.query('COMMIT');
    return result;
  } catch (error) {
    // A connection that is gone has rolled back already; what it failed for is the error worth telling.
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

function osUser(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container the user may have no name.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

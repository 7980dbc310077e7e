import type { Client } from 'pg';
import { type DatabaseRole, openClient } from '../postgres/connect.ts';
import { readyDatabase } from './ready-database.ts';

/** Runs `work` with a connection under `role`, and closes it. */
export async function withClient<T>(role: DatabaseRole, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await openClient({ url: await readyDatabase(role), as: role, applicationName: 'madrugada' });
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

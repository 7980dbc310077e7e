import { migrate } from '../postgres/migrate.ts';
import { databaseUrl } from '../postgres/url.ts';

/**
 * The URL of the database to work with. The embedded one is started and migrated when needed; a server of one's own is migrated only by
 * `madrugada init`, because a night's login need not have the rights for it.
 */
export async function readyDatabase(): Promise<string> {
  const url = await databaseUrl();
  if (!process.env.DATABASE_URL) await migrate(url);
  return url;
}

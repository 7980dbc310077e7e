import { type DatabaseRole, openClient } from '../postgres/connect.ts';
import { migrate, requireSchema } from '../postgres/migrate.ts';
import { databaseUrl } from '../postgres/url.ts';

/**
 * The URL of the database to work with. The embedded one is started and migrated when needed; a server of one's own is migrated only by
 * `madrugada init`, because a night's login need not have the rights for it: it is refused unless it has exactly this version's schema. `as`: the role of the command, which may be the only one the login has.
 */
export async function readyDatabase(as: DatabaseRole): Promise<string> {
  const url = await databaseUrl();
  if (!process.env.DATABASE_URL) await migrate(url);
  else await checkSchema(url, as);
  return url;
}

async function checkSchema(url: string, as: DatabaseRole): Promise<void> {
  const client = await openClient({ url, as, applicationName: 'madrugada schema check' });
  try {
    await requireSchema(client);
  } finally {
    await client.end();
  }
}

import { startEmbedded } from './embedded.ts';

/**
 * The URL of the database to use: `DATABASE_URL` if set, else the embedded server's, which is started if it is not running.
 * It contains a password: never print it, except where a person asked for it.
 */
export async function databaseUrl(): Promise<string> {
  return process.env.DATABASE_URL || (await startEmbedded()).url;
}

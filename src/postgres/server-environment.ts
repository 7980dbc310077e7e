/**
 * The environment of the server's programs: nothing of ours, since `PGDATA`, `PGOPTIONS` or a locale of the caller would
 * change what is created, and keys for the provider have no business in a database.
 */
export function serverEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };
}

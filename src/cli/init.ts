import type { Command } from 'commander';
import { migrate } from '../postgres/migrate.ts';
import { databaseUrl } from '../postgres/url.ts';
import { type CommonFlags, printResult } from './output.ts';

const HELP = `
Example:
  madrugada init                                     the embedded database, started if needed
  DATABASE_URL=postgres://me:secret@db/nights madrugada init

Running it again changes nothing. Two at once are safe.`;

/** `madrugada init`: migrates the database. */
export function register(program: Command): void {
  program.command('init').description('migrate the database').addHelpText('after', HELP).action(init);
}

async function init(flags: CommonFlags): Promise<void> {
  const { applied } = await migrate(await databaseUrl());
  const news =
    applied.length === 0 ? ['nothing to do: the database is up to date'] : applied.map((name) => `applied ${name}`);
  printResult(flags, { applied }, news.join('\n'));
}

import type { Command } from 'commander';
import { startEmbedded, stopEmbedded } from '../postgres/embedded.ts';
import { databaseUrl } from '../postgres/url.ts';
import { type CommonFlags, printResult } from './output.ts';
import { runPsql } from './psql.ts';

const HELP = `
Examples:
  madrugada db start
  psql "$(madrugada db url)" -v batch=2026-11 -f db/audit/01-duplicate-charges.sql
  madrugada db psql -c 'SELECT state, count(*) FROM task GROUP BY 1'
  madrugada db stop

With DATABASE_URL set, url and psql use that database; start and stop always mean the embedded server.`;

const PSQL_HELP = `
Everything after "psql" goes to psql. Where it is not installed, a small one runs -c, -f, -v, -q, -A, -t and standard input,
with :name, :'name', :"name", \\echo, \\set and \\quit.

Example:
  madrugada db psql -v batch=2026-11 -f db/audit/01-duplicate-charges.sql`;

/** `madrugada db`: the embedded server, and a way into the database. */
export function register(program: Command): void {
  const db = program.command('db').description('the embedded database server').addHelpText('after', HELP);
  db.command('start')
    .description('start it, if it is not running')
    .addHelpText('after', '\nExample:\n  madrugada db start')
    .action(start);
  db.command('stop')
    .description('stop it, ending its sessions in order')
    .option('--immediate', 'stop at once, as a crash would; the next start recovers')
    .addHelpText('after', '\nExample:\n  madrugada db stop')
    .action(stop);
  db.command('url')
    .description("print the database's URL, password included, and nothing else")
    .addHelpText('after', '\nExample:\n  pg_dump "$(madrugada db url)" > night.sql')
    .action(url);
  db.command('psql')
    .description('run psql on the database')
    .argument('[args...]', 'arguments of psql')
    .allowUnknownOption()
    .passThroughOptions()
    .addHelpText('after', PSQL_HELP)
    .action(psql);
}

async function start(flags: CommonFlags): Promise<void> {
  const { port, started } = await startEmbedded();
  const text = started ? `started on 127.0.0.1:${port}` : `already running on 127.0.0.1:${port}`;
  printResult(flags, { port, started }, text);
}

async function stop(flags: CommonFlags & { immediate?: boolean }): Promise<void> {
  const stopped = await stopEmbedded(undefined, flags.immediate === true ? 'immediate' : 'fast');
  printResult(flags, { stopped }, stopped ? 'stopped' : 'was not running');
}

async function url(flags: CommonFlags): Promise<void> {
  const address = await databaseUrl();
  printResult(flags, { url: address }, address);
}

async function psql(args: string[]): Promise<void> {
  process.exitCode = await runPsql(await databaseUrl(), args);
}

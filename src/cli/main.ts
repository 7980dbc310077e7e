#!/usr/bin/env node
import { type Command, CommanderError, program } from 'commander';
import { MadrugadaError, messageOf } from '../errors.ts';
import { explainDatabaseError } from '../postgres/explain-error.ts';
import { applyConfig } from './apply-config.ts';
import { registerCommands } from './commands.ts';
import { type CommonFlags, printError } from './output.ts';

const USAGE_ERROR = 2;
/** A defect of ours: something was done, nobody knows how much, and a person must look. */
const UNEXPECTED_ERROR = 1;

const HELP = `
Example:
  madrugada init
  madrugada batch load 2026-11 questions.csv --version v3
  madrugada run 2026-11 --simulate
  madrugada audit 2026-11

Settings: flags, then the environment (DATABASE_URL, ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, MADRUGADA_*), then madrugada.config.ts in the
current folder (export default defineConfig({ workers: 4, … })).

Exit codes: 0 done; 1 done, but a person must look at something (or an unexpected error); 2 wrong usage or input, nothing changed;
3 the database or the provider could not be reached; 130 interrupted, work released.`;

async function main(args: string[]): Promise<void> {
  // A reader that has seen enough (`| head`) is no error.
  process.stdout.on('error', (error: NodeJS.ErrnoException) =>
    process.exit(error.code === 'EPIPE' ? 0 : UNEXPECTED_ERROR),
  );
  program
    .name('madrugada')
    .description('Runs LLM agents overnight on Postgres, and proves in the morning what was paid for.')
    .enablePositionalOptions()
    .exitOverride()
    .addHelpText('after', HELP);
  try {
    await registerCommands(program, args);
    addCommonFlags(program);
    program.hook('preAction', (_, command) => inheritFlags(command));
    program.hook('preAction', (_, command) => applyConfig(command));
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    process.exitCode = report(error, commonFlags(args));
  }
}

/** `--json` and `--debug` are taken before the command and after it. */
function addCommonFlags(command: Command): void {
  const names = command.options.map((option) => option.long);
  if (!names.includes('--json')) command.option('--json', 'print one JSON document on stdout; progress on stderr');
  if (!names.includes('--debug')) command.option('--debug', 'print stack traces of errors');
  for (const child of command.commands) addCommonFlags(child);
}

function inheritFlags(command: Command): void {
  const { json, debug } = command.optsWithGlobals<CommonFlags>();
  if (json === true) command.setOptionValue('json', true);
  if (debug === true) command.setOptionValue('debug', true);
}

/** Read from the bare arguments, since a usage error leaves nothing parsed. */
function commonFlags(args: string[]): CommonFlags {
  return { json: args.includes('--json'), debug: args.includes('--debug') };
}

function report(error: unknown, flags: CommonFlags): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0; // --help
    if (flags.json === true) printError(flags, error.message, USAGE_ERROR);
    return USAGE_ERROR; // commander has printed its message
  }
  const known = error instanceof MadrugadaError ? error : explainDatabaseError(error);
  const exitCode = known?.exitCode ?? UNEXPECTED_ERROR;
  const message = known?.message ?? `unexpected: ${messageOf(error)} (a defect; --debug shows where)`;
  printError(flags, message, exitCode);
  if (flags.debug === true && error instanceof Error) process.stderr.write(`${error.stack}\n`);
  return exitCode;
}

await main(process.argv.slice(2));

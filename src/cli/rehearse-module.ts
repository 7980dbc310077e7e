import { writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import { MadrugadaError, messageOf } from '../errors.ts';
import { describeModule, rehearseModule } from '../rehearsal/rehearse-module.ts';
import { type CommonFlags, printProgress, printResult } from './output.ts';
import { readyDatabase } from './ready-database.ts';

interface ModuleFlags extends CommonFlags {
  input: unknown;
  by: string;
  againstStaging?: boolean;
  out?: string;
}

const LOOK = 1;

const HELP = `
Runs the module's own actions for real against the targets that it names, so point these at staging by the environment first. Model calls go
to the simulated provider. Three runs in a scratch database: clean; the worker killed after each effect, before its record, and resumed; the
first read-back of each action failing. The rehearsal approves what is proposed, and each run is taken back at its end. What a rollback
cannot take back stays in staging. The verdict is put on record for exactly this version of the module file: without "production" its
actions are refused at night.

Example:
  BANK_URL=postgres://…/staging madrugada rehearse module agents/transfer.ts --input '{"from":1,"to":2,"amount":"5.00"}' --by ana --against-staging

Exit code 1: the verdict is not production.`;

/** `madrugada rehearse module`. */
export function registerModule(rehearse: Command): void {
  rehearse
    .command('module <file>')
    .description('crash and undo the actions of your own agent against staging, and judge them')
    .requiredOption('--input <json>', 'the input of one task', json)
    .requiredOption('--by <who>', 'who rehearses it, for the record')
    .option('--against-staging', 'confirm that the environment points the module at staging')
    .option('--out <file>', 'write the report there: Markdown, or JSON if it ends with .json')
    .addHelpText('after', HELP)
    .action(rehearseOne);
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new MadrugadaError(`--input is no JSON: ${messageOf(error)}`);
  }
}

async function rehearseOne(module: string, { input, by, ...flags }: ModuleFlags): Promise<void> {
  if (!flags.againstStaging)
    throw new MadrugadaError(
      'a rehearsal executes the actions for real: point their targets at staging, and confirm it by --against-staging',
    );
  const report = await rehearseModule({ module, input, by, url: await readyDatabase('operator'), say: printProgress });
  const markdown = describeModule(report);
  if (flags.out)
    writeFileSync(flags.out, flags.out.endsWith('.json') ? `${JSON.stringify(report, null, 2)}\n` : `${markdown}\n`);
  printResult(flags, report, markdown);
  if (report.verdict !== 'production') process.exitCode = LOOK;
}

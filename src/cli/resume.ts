import type { Command } from 'commander';
import { resumeEverything } from '../batch/change-batch.ts';
import { type CommonFlags, printResult } from './output.ts';
import { withClient } from './with-client.ts';

interface ResumeFlags extends CommonFlags {
  by: string;
  reason: string;
}

const HELP = `
Lifts the stop of everything. Batches that are stopped themselves stay stopped: madrugada batch resume opens them. After a restored backup or
a failover the database's new server counts as looked at from now on: compare the provider's bill first (madrugada audit).

Example:
  madrugada resume --by ana --reason "the bill was right"`;

/** `madrugada resume`: the stop of everything is over. */
export function register(program: Command): void {
  program
    .command('resume')
    .description('let work go on after madrugada stop')
    .requiredOption('--by <name>', 'who')
    .requiredOption('--reason <text>', 'why')
    .addHelpText('after', HELP)
    .action(resume);
}

async function resume(flags: ResumeFlags): Promise<void> {
  await withClient('operator', async (client) => {
    const { lifted, confirmedServer } = await resumeEverything(client, flags);
    const lines = [
      lifted ? 'the stop of everything is lifted' : 'there was no stop of everything to lift',
      ...(confirmedServer
        ? ['the database is on another server than before; from now on this one counts as looked at, by you']
        : []),
    ];
    printResult(flags, { stopped: false, changed: lifted, confirmed_server: confirmedServer }, lines.join('\n'));
  });
}

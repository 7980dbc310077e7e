import type { Command } from 'commander';
import { stopEverything } from '../batch/change-batch.ts';
import { type CommonFlags, printResult } from './output.ts';
import { withClient } from './with-client.ts';

/** What `--now` does, here and for one batch. */
export const NOW_TEXT = 'break off what is in flight as well; whether it was charged is then in doubt';

interface StopFlags extends CommonFlags {
  reason: string;
  by?: string;
  now?: boolean;
}

const HELP = `
Every worker of this database, on whatever machine, sends no further call; calls in flight are recorded, and running tasks are given back
without losing an attempt. madrugada resume lets work go on; madrugada batch stop stops one batch.

Example:
  madrugada stop --by ana --reason "the bill looks wrong"`;

/** `madrugada stop`: everything, at once. */
export function register(program: Command): void {
  program
    .command('stop')
    .description('stop everything: no further call is paid by anybody')
    .requiredOption('--reason <text>', 'why')
    .option('--by <name>', 'who')
    .option('--now', NOW_TEXT)
    .addHelpText('after', HELP)
    .action(stop);
}

async function stop(flags: StopFlags): Promise<void> {
  await withClient('operator', async (client) => {
    const changed = await stopEverything(client, flags);
    const text = changed
      ? 'everything is stopped; madrugada resume --by WHO --reason TEXT lets it go on'
      : 'everything is already stopped';
    printResult(flags, { stopped: true, changed }, text);
  });
}

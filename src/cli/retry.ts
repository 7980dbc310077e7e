import type { Command } from 'commander';
import { retryTask } from '../batch/retry-task.ts';
import { positiveInteger } from './flags.ts';
import { type CommonFlags, printResult } from './output.ts';
import { withClient } from './with-client.ts';

interface RetryFlags extends CommonFlags {
  by: string;
  reason: string;
  payAgainFrom?: number;
}

const HELP = `
Its recorded calls are replayed for free. A task that diverged asks something else than is recorded: mend the agent, or let its calls be paid
again from the one that madrugada task show names.

Example:
  madrugada retry 2026-11:215:v3 --by ana --reason "the document was missing"
  madrugada retry 2026-11:215:v3 --by ana --reason "new prompt is right" --pay-again-from 8`;

/** `madrugada retry`: a person sends a task back. */
export function register(program: Command): void {
  program
    .command('retry <task>')
    .description('send a failed or diverged task back, with fresh attempts')
    .requiredOption('--by <name>', 'who')
    .requiredOption('--reason <text>', 'why')
    .option('--pay-again-from <seq>', 'pay the recorded calls from this one on again', positiveInteger)
    .addHelpText('after', HELP)
    .action(retry);
}

async function retry(key: string, flags: RetryFlags): Promise<void> {
  await withClient('operator', (client) => retryTask(client, key, flags, flags.payAgainFrom));
  const paying = flags.payAgainFrom === undefined ? '' : `; its calls from ${flags.payAgainFrom} on are paid again`;
  printResult(
    flags,
    { task: key, state: 'pending', pay_again_from: flags.payAgainFrom ?? null },
    `task ${key} is pending again${paying}`,
  );
}

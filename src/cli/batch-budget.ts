import { type Command, InvalidArgumentError } from 'commander';
import { type BatchLimits, batchMoney, setBatchLimits } from '../batch/budget.ts';
import { findBatch } from '../batch/find-batch.ts';
import { MadrugadaError } from '../errors.ts';
import { dollars } from './flags.ts';
import { type CommonFlags, printResult, snakeKeys } from './output.ts';
import { withClient } from './with-client.ts';

interface BudgetFlags extends CommonFlags {
  task?: string;
  velocity?: string;
  by?: string;
  reason?: string;
}

const HELP = `
Without an amount, shows the limits of a batch and what is spent, held and left. With one, changes them: USD for the whole batch, --task for
each of its tasks, --velocity for any ten minutes; "none" lifts a limit. A batch that was stopped because its money was used up stays stopped:
madrugada batch resume opens it again.

Examples:
  madrugada batch budget 2026-11
  madrugada batch budget 2026-11 200 --by ana --reason "20 more questions"
  madrugada batch budget 2026-11 --task 2.50 --velocity 40 --by ana --reason "a runaway agent last month"`;

/** `madrugada batch budget`: what one batch may spend. */
export function registerBudget(batch: Command): void {
  batch
    .command('budget <batch> [usd]')
    .description('show or change what a batch may spend')
    .option('--task <usd>', 'what each task may spend', dollarsOrNone)
    .option('--velocity <usd>', 'what may be spent in any ten minutes; more stops the batch', dollarsOrNone)
    .option('--by <name>', 'who changes it')
    .option('--reason <text>', 'why')
    .addHelpText('after', HELP)
    .action(budget);
}

async function budget(name: string, usd: string | undefined, flags: BudgetFlags): Promise<void> {
  const changes = {
    ...(usd !== undefined && { budgetUsd: limit(dollarsArgument(usd)) }),
    ...(flags.task !== undefined && { taskBudgetUsd: limit(flags.task) }),
    ...(flags.velocity !== undefined && { velocityUsd: limit(flags.velocity) }),
  };
  if (Object.keys(changes).length === 0) return show(name, flags);
  const { by, reason } = flags;
  if (!by || !reason) throw new MadrugadaError('a budget is changed by a person: give --by WHO and --reason TEXT');
  await change(name, changes, { by, reason }, flags);
}

async function show(name: string, flags: CommonFlags): Promise<void> {
  await withClient('auditor', async (client) => {
    const { key } = await findBatch(client, name);
    const money = await batchMoney(client, key);
    const lines = [
      `batch ${key}: ${limitsText(money)}`,
      `US$ ${money.settledUsd} settled, US$ ${money.heldUsd} held, US$ ${money.drawnUsd} drawn by its tasks; US$ ${money.lastTenMinutesUsd} in the last ten minutes`,
      ...(money.waitingTasks > 0 ? [`${money.waitingTasks} tasks wait for money`] : []),
    ];
    printResult(flags, { batch: key, ...snakeKeys(money) }, lines.join('\n'));
  });
}

async function change(
  name: string,
  changes: Partial<BatchLimits>,
  said: { by: string; reason: string },
  flags: CommonFlags,
): Promise<void> {
  await withClient('operator', async (client) => {
    const { batchKey, limits, state } = await setBatchLimits(client, name, changes, said);
    const lines = [
      `batch ${batchKey}: ${limitsText(limits)}`,
      ...(state === 'stopped'
        ? [`it is stopped; madrugada batch resume ${batchKey} --by WHO --reason TEXT opens it again`]
        : []),
    ];
    printResult(flags, { batch: batchKey, ...snakeKeys(limits), state }, lines.join('\n'));
  });
}

function limitsText({ budgetUsd, taskBudgetUsd, velocityUsd }: BatchLimits): string {
  const text = (usd: string | null) => (usd === null ? 'no limit' : `US$ ${usd}`);
  return `budget ${text(budgetUsd)}, of each task ${text(taskBudgetUsd)}, in ten minutes ${text(velocityUsd)}`;
}

/** `none` lifts a limit. */
export function dollarsOrNone(text: string): string {
  return text === 'none' ? text : dollars(text);
}

/** As `dollarsOrNone`, for an argument: commander words only the errors of options by itself. */
export function dollarsArgument(text: string): string {
  try {
    return dollarsOrNone(text);
  } catch (error) {
    if (error instanceof InvalidArgumentError)
      throw new MadrugadaError(`"${text}" is no amount: dollars, such as 164.00, or none`, 2, { cause: error });
    throw error;
  }
}

/** What the database keeps. */
export function limit(text: string): string | null {
  return text === 'none' ? null : text;
}

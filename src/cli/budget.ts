import type { Command } from 'commander';
import { monthMoney, setMonthLimit } from '../batch/budget.ts';
import { MadrugadaError } from '../errors.ts';
import { dollarsArgument, limit } from './batch-budget.ts';
import { type CommonFlags, formatTable, printResult, snakeKeys } from './output.ts';
import { withClient } from './with-client.ts';

const HELP = `
What all batches together may spend in a calendar month (UTC). A limit holds for its month and, until it is changed, for those after it;
"none" lifts it. madrugada batch budget sets what one batch may spend.

Examples:
  madrugada budget month
  madrugada budget month 2026-12 500 --by ana --reason "yearly plan"`;

/** `madrugada budget`: what all batches together may spend. */
export function register(program: Command): void {
  const budget = program.command('budget').description('what all batches together may spend in a month');
  budget
    .command('month [month] [usd]')
    .description('show or set the limit of a calendar month')
    .option('--by <name>', 'who sets it')
    .option('--reason <text>', 'why')
    .addHelpText('after', HELP)
    .action(month);
}

async function month(
  name: string | undefined,
  usd: string | undefined,
  flags: CommonFlags & { by?: string; reason?: string },
): Promise<void> {
  if (name === undefined || usd === undefined) return show(flags);
  if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(name))
    throw new MadrugadaError(`"${name}" is no month: write it as 2026-12, and the amount after it`);
  const { by, reason } = flags;
  if (!by || !reason) throw new MadrugadaError('a budget is set by a person: give --by WHO and --reason TEXT');
  const capUsd = limit(dollarsArgument(usd));
  await withClient('operator', async (client) => {
    await setMonthLimit(client, name, capUsd, { by, reason });
    const text = capUsd === null ? 'no limit' : `at most US$ ${capUsd}`;
    printResult(flags, { month: name, cap_usd: capUsd }, `month ${name} and those after it: ${text}`);
  });
}

async function show(flags: CommonFlags): Promise<void> {
  await withClient('auditor', async (client) => {
    const months = await monthMoney(client);
    const table = formatTable(
      ['month', 'limit US$', 'drawn US$'],
      months.map(({ month, capUsd, drawnUsd }) => [month, capUsd ?? 'none', drawnUsd]),
    );
    printResult(
      flags,
      months.map(snakeKeys),
      months.length === 0 ? 'no month has a limit; see madrugada budget month --help' : table,
    );
  });
}

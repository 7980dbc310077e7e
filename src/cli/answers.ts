import { type Command, Option } from 'commander';
import { type AnswerFormat, exportAnswers } from '../batch/export-answers.ts';
import { findBatch } from '../batch/find-batch.ts';
import type { CommonFlags } from './output.ts';
import { withClient } from './with-client.ts';

const HELP = `
One line per completed task, in the order of the list. In CSV, cells that a spreadsheet would run as a formula are neutralised.

Example:
  madrugada answers 2026-11 --format csv > answers.csv`;

/** `madrugada answers`: the results. */
export function register(program: Command): void {
  program
    .command('answers <batch>')
    .description('export the results of a batch')
    .addOption(new Option('--format <format>', 'of the output').choices(['jsonl', 'csv']).default('jsonl'))
    .addHelpText('after', HELP)
    .action(answers);
}

async function answers(name: string, flags: CommonFlags & { format: AnswerFormat }): Promise<void> {
  await withClient('auditor', async (client) => {
    const { key } = await findBatch(client, name);
    await exportAnswers(client, key, flags.json === true ? 'json' : flags.format, process.stdout);
  });
}

import type { Command } from 'commander';
import { findBatch } from '../batch/find-batch.ts';
import { importBill } from '../bill/import-bill.ts';
import { type CommonFlags, printResult } from './output.ts';
import { withClient } from './with-client.ts';

const HELP = `
Every line is kept as it is: a double charge shows twice. The same file again changes nothing; one that has grown replaces it in the proofs.

Example:
  madrugada bill import 2026-11 .madrugada/bills/2026-11_v1.jsonl`;

/** `madrugada bill`: the provider's own list of charges. */
export function register(program: Command): void {
  const bill = program.command('bill').description('the provider’s own list of charges');
  bill
    .command('import <batch> <file>')
    .description('import a bill for a batch')
    .option('--by <name>', 'who imports it, for the audit trail')
    .addHelpText('after', HELP)
    .action(importFile);
}

async function importFile(name: string, file: string, flags: CommonFlags & { by?: string }): Promise<void> {
  await withClient('operator', async (client) => {
    const { key } = await findBatch(client, name);
    const { id, lines, sha256, imported, continues } = await importBill(client, key, file, flags.by);
    const replaces = continues === null ? '' : `; it goes on where bill ${continues} ended, and replaces it`;
    printResult(
      flags,
      { batch: key, bill: id, lines, sha256, imported, continues },
      imported
        ? `bill ${id} of batch ${key}: ${lines} lines imported${replaces}\nmadrugada audit ${key} gives the proofs`
        : `this bill was imported before as bill ${id} of batch ${key}; nothing was changed`,
    );
  });
}

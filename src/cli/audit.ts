import type { Command } from 'commander';
import { findBatch } from '../batch/find-batch.ts';
import { type Exposure, exposureSentence, readExposure } from '../bill/exposure.ts';
import { type Proof, readProofs } from '../bill/proofs.ts';
import { judgeBatch } from '../bill/verdict.ts';
import { type CommonFlags, formatTable, printResult, snakeKeys } from './output.ts';
import { withClient } from './with-client.ts';

const LOOK = 1;
const SHOWN_ROWS = 20;

const HELP = `
Runs the queries of db/audit, the same that psql runs, and says what the proofs among them come to. Import the provider's bill first.

Example:
  madrugada bill import 2026-11 bill.jsonl
  madrugada audit 2026-11

Exit code 1: a proof fails, or cannot be given yet.`;

/** `madrugada audit`: the proofs. */
export function register(program: Command): void {
  program
    .command('audit <batch>')
    .description('prove what was paid for, and that nothing was paid for twice unseen')
    .option('--all', `print every row, not the first ${SHOWN_ROWS} of each proof`)
    .addHelpText('after', HELP)
    .action(audit);
}

async function audit(name: string, flags: CommonFlags & { all?: boolean }): Promise<void> {
  await withClient('auditor', async (client) => {
    const { key } = await findBatch(client, name);
    const proofs = await readProofs(client, key);
    const { problems, inDoubt } = await judgeBatch(client, key);
    const exposure = await readExposure(client, key);
    const document = {
      batch: key,
      proofs: proofs.map(objectsOf),
      in_doubt: inDoubt,
      exposure: snakeKeys(exposure),
      problems,
      ok: problems.length === 0,
    };
    const text = [
      ...proofs.map((proof) => describe(proof, flags.all === true)),
      '',
      ...sentences(key, problems, inDoubt, exposure),
    ];
    printResult(flags, document, text.join('\n'));
    if (problems.length > 0) process.exitCode = LOOK;
  });
}

function objectsOf({ file, columns, rows }: Proof) {
  return { proof: file, rows: rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, row[index]]))) };
}

function describe({ file, columns, rows }: Proof, all: boolean): string {
  const shown = all ? rows : rows.slice(0, SHOWN_ROWS);
  const count = `${rows.length} ${rows.length === 1 ? 'row' : 'rows'}`;
  const cut = shown.length < rows.length ? `, the first ${shown.length} shown; --all prints all` : '';
  const table = formatTable(
    columns,
    shown.map((row) => row.map((value) => value ?? '')),
  );
  return `${file} (${count}${cut})\n${rows.length === 0 ? '' : `${table}\n`}`;
}

function sentences(key: string, problems: string[], inDoubt: number, exposure: Exposure): string[] {
  const doubts =
    inDoubt > 0
      ? [`${inDoubt} dispatches are in doubt: madrugada doubt list ${key} names them and says what to do next`]
      : [];
  const rest = [...doubts, exposureSentence(exposure)];
  if (problems.length === 0) return [`batch ${key}: every proof holds`, ...rest];
  return [`batch ${key}: a person must look`, ...problems.map((problem) => `- ${problem}`), ...rest];
}

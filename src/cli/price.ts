import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { asPerson } from '../batch/as-person.ts';
import { MadrugadaError, messageOf } from '../errors.ts';
import type { ModelPrice } from '../provider/model-price.ts';
import { readPriceList } from '../provider/price-list.ts';
import { readAllPrices } from '../provider/read-prices.ts';
import { writePrices } from '../provider/write-prices.ts';
import { type CommonFlags, formatTable, printResult } from './output.ts';
import { withClient } from './with-client.ts';

const LOAD_HELP = `
FILE has the form of the lists that come with the program. Dollars per million tokens, as decimals in quotes; a price holds from its date (UTC)
on, and counts before a built-in one. All of the file is loaded or nothing.

Example, for a model that is not known:
  {"models": [{"model": "my-model", "context_tokens": 200000, "max_output_tokens": 8000, "prices": [{"valid_from": "2026-12-01",
    "input": "1", "output": "5", "cache_read": "0.1", "cache_write_5m": "1.25", "cache_write_1h": "2"}]}]}
  madrugada price load prices.json --by ana`;

/** `madrugada price`: what models cost. */
export function register(program: Command): void {
  const price = program.command('price').description('what models cost: a call of one without a price is not sent');
  price
    .command('list [model]')
    .description('list the prices that count')
    .addHelpText('after', '\nExample:\n  madrugada price list claude-haiku-4-5')
    .action(list);
  price
    .command('load <file>')
    .description('add or change prices')
    .requiredOption('--by <name>', 'who')
    .addHelpText('after', LOAD_HELP)
    .action(load);
}

async function list(model: string | undefined, flags: CommonFlags): Promise<void> {
  await withClient('auditor', async (client) => {
    const prices = (await readAllPrices(client)).filter((price) => model === undefined || price.model === model);
    const rows = prices.flatMap(rowsOf);
    const table = formatTable(
      ['model', 'from', 'above', 'input', 'output', 'cache read', 'write 5m', 'write 1h', 'of'],
      rows.map((row) => Object.values(row)),
    );
    printResult(flags, rows, rows.length === 0 ? `no price of ${model}; see madrugada price load --help` : table);
  });
}

function rowsOf({ model, validFrom, builtIn, bands }: ModelPrice) {
  return bands.map((band) => ({
    model,
    valid_from: validFrom.toISOString().slice(0, 10),
    above_input_tokens: band.aboveInputTokens,
    input: band.input.toFixed(),
    output: band.output.toFixed(),
    cache_read: band.cacheRead.toFixed(),
    cache_write_5m: band.cacheWrite5m.toFixed(),
    cache_write_1h: band.cacheWrite1h.toFixed(),
    of: builtIn ? 'the program' : 'a person',
  }));
}

async function load(file: string, flags: CommonFlags & { by: string }): Promise<void> {
  const prices = readPriceList(await readJson(file), file, false);
  await withClient('operator', async (client) => {
    await asPerson(client, { by: flags.by, reason: `loaded from ${file}` }, () =>
      writePrices(client, prices, resolve(file)),
    );
    const models = [...new Set(prices.map(({ model }) => model))];
    printResult(flags, { file, models, prices: prices.length }, `${prices.length} prices loaded: ${models.join(', ')}`);
  });
}

async function readJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw new MadrugadaError(`${file} cannot be read: ${messageOf(error)}; nothing was changed`, 2, { cause: error });
  }
}

import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { stringify } from 'csv-stringify';
import type { ClientBase } from 'pg';
import { type Answer, answerFields, hasPlainAnswers, readAnswers } from './answers.ts';
import { isRawJson, parseKeepingNumbers } from './exact-json.ts';

/** `json` is one array. */
export type AnswerFormat = 'jsonl' | 'csv' | 'json';

/**
 * Writes the answers of a batch to `output`, in the order of its list, and leaves `output` open. All are read from one snapshot, in pages, at
 * the speed at which `output` takes them. Rejects when `output` fails; EPIPE means that its reader has left.
 */
export async function exportAnswers(
  client: ClientBase,
  batchKey: string,
  format: AnswerFormat,
  output: Writable,
): Promise<void> {
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  try {
    await pipeline(await answerText(client, batchKey, format), output, { end: false });
  } finally {
    await client.query('COMMIT');
  }
}

async function answerText(client: ClientBase, batchKey: string, format: AnswerFormat): Promise<Readable> {
  switch (format) {
    case 'csv':
      return await csvText(client, batchKey);
    case 'jsonl':
      return Readable.from(jsonLines(client, batchKey));
    case 'json':
      return Readable.from(jsonArray(jsonLines(client, batchKey)));
  }
}

async function* jsonLines(client: ClientBase, batchKey: string): AsyncGenerator<string> {
  for await (const { resultJson, completedAt, spentUsd, key, item } of readAnswers(client, batchKey)) {
    const head = JSON.stringify({ key, item, completed_at: completedAt, cost_usd: spentUsd });
    // The database's JSON is copied as it is.
    yield `${head.slice(0, -1)},"result":${resultJson}}\n`;
  }
}

async function* jsonArray(lines: AsyncIterable<string>): AsyncGenerator<string> {
  let separator = '[';
  for await (const line of lines) {
    yield separator + line;
    separator = ',';
  }
  yield separator === '[' ? '[]\n' : ']\n';
}

const TASK_COLUMNS = ['item', 'key', 'completed_at', 'cost_usd'];

/**
 * One row per answer, one column per field. Cells that a spreadsheet would take for a formula (beginning with = + - @, a tab or a carriage
 * return) get a leading apostrophe: an answer repeats words that somebody else wrote.
 */
async function csvText(client: ClientBase, batchKey: string): Promise<Readable> {
  const fields = await answerFields(client, batchKey);
  const plain = (await hasPlainAnswers(client, batchKey)) ? ['result'] : [];
  const taken = [...TASK_COLUMNS, ...plain];
  const headers = [
    ...TASK_COLUMNS,
    ...fields.map((name) => (taken.includes(name) ? `result.${name}` : name)),
    ...plain,
  ];
  const columns = headers.map((header, index) => ({ key: String(index), header }));
  const csv = stringify({ header: true, columns, escape_formulas: true });
  return Readable.from(csvRows(client, batchKey, fields, plain.length > 0)).compose(csv) as Readable;
}

async function* csvRows(
  client: ClientBase,
  batchKey: string,
  fields: readonly string[],
  hasPlain: boolean,
): AsyncGenerator<readonly string[]> {
  for await (const answer of readAnswers(client, batchKey)) {
    const { item, key, completedAt, spentUsd } = answer;
    yield [item, key, completedAt.toISOString(), spentUsd, ...resultCells(answer, fields, hasPlain)];
  }
}

/** As many cells for every answer: one per field, and one for a plain answer where the batch has any. */
function resultCells({ resultJson }: Answer, fields: readonly string[], hasPlain: boolean): string[] {
  const result = parseKeepingNumbers(resultJson);
  const isFields = typeof result === 'object' && result !== null && !Array.isArray(result) && !isRawJson(result);
  if (!isFields) return [...fields.map(() => ''), cell(result)];
  const cells = fields.map((field) => cell((result as Record<string, unknown>)[field]));
  return hasPlain ? [...cells, ''] : cells;
}

/** Text as it is, nothing as an empty cell, the rest as JSON. */
function cell(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ClientBase } from 'pg';
import { from } from 'pg-copy-streams';

const CHUNK_CHARACTERS = 1 << 16;

/** No statement time-out: rows come as fast as their source gives them, and standard input may take its time. The longest timer there is. */
const PATIENCE_MS = 2 ** 31 - 1;

/** One row in COPY's text format; null is SQL's NULL. */
export function copyRow(fields: readonly (string | number | null)[]): string {
  return `${fields.map((field) => (field === null ? '\\N' : escapeField(String(field)))).join('\t')}\n`;
}

function escapeField(text: string): string {
  return text.replace(/[\\\n\r\t]/g, (character) => COPY_ESCAPES[character] ?? character);
}

const COPY_ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * Streams rows in COPY's text format into the COPY statement, in chunks: one write per row would cost more than the row. Rejects with whatever
 * reading the rows throws; the transaction is then aborted.
 */
export async function copyRows(client: ClientBase, copy: string, rows: AsyncIterable<string>): Promise<void> {
  const stream = Object.assign(from(copy), { query_timeout: PATIENCE_MS });
  await pipeline(Readable.from(inChunks(rows)), client.query(stream));
}

async function* inChunks(rows: AsyncIterable<string>): AsyncGenerator<string> {
  let chunk = '';
  for await (const row of rows) {
    chunk += row;
    if (chunk.length >= CHUNK_CHARACTERS) {
      yield chunk;
      chunk = '';
    }
  }
  if (chunk !== '') yield chunk;
}

import { resolve } from 'node:path';
import { type ClientBase, DatabaseError } from 'pg';
import { asPerson } from '../batch/as-person.ts';
import { copyRow, copyRows } from '../batch/copy-rows.ts';
import { type BillIdentity, identifyBill, readBill } from './scan-bill.ts';

export type ImportedBill = {
  readonly id: number;
  readonly lines: number;
  readonly sha256: string;
  /** False when this very file was imported before: nothing changed. */
  readonly imported: boolean;
  /** The earlier bill that this file begins with, and that it replaces in the proofs; null when there is none. */
  readonly continues: number | null;
};

type EarlierBill = { readonly id: number; readonly sha256: string; readonly bytes: number };

const UNIQUE_VIOLATION = '23505';
const FORMAT = 'simulator';

const COPY = `COPY madrugada.bill_line
  (bill_id, line_no, provider_request_id, message_id, tag, at, model, input_tokens, output_tokens, cost_usd, raw) FROM STDIN`;

/**
 * Imports the simulated provider's bill for a batch, all or nothing. Every line is kept: a double charge shows twice. The same file again
 * changes nothing; a file that begins with an imported one and goes on replaces it in the proofs. `client` is a connection of the role
 * operator. Throws a MadrugadaError that names every bad line (the first 20, then a count).
 */
export async function importBill(
  client: ClientBase,
  batchKey: string,
  file: string,
  by?: string,
): Promise<ImportedBill> {
  const earlier = await earlierBills(client, batchKey);
  const identity = await identifyBill(
    file,
    earlier.map(({ bytes }) => bytes),
  );
  const same = earlier.find(({ sha256 }) => sha256 === identity.sha256);
  if (same) return alreadyImported(same, identity);
  try {
    return await asPerson(client, { by }, () => insertBill(client, batchKey, file, identity, earlier));
  } catch (error) {
    const [twin] = (await wasImportedMeanwhile(client, error, batchKey, identity)) ?? [];
    if (twin) return alreadyImported(twin, identity);
    throw error;
  }
}

async function earlierBills(client: ClientBase, batchKey: string): Promise<EarlierBill[]> {
  const { rows } = await client.query<EarlierBill>(
    'SELECT id, sha256, byte_count AS bytes FROM madrugada.bill WHERE batch_key = $1 ORDER BY byte_count DESC, id DESC',
    [batchKey],
  );
  return rows;
}

async function wasImportedMeanwhile(
  client: ClientBase,
  error: unknown,
  batchKey: string,
  identity: BillIdentity,
): Promise<EarlierBill[] | undefined> {
  if (!(error instanceof DatabaseError && error.code === UNIQUE_VIOLATION && error.table === 'bill')) return undefined;
  return (await earlierBills(client, batchKey)).filter(({ sha256 }) => sha256 === identity.sha256);
}

function alreadyImported({ id }: EarlierBill, { lineCount, sha256 }: BillIdentity): ImportedBill {
  return { id, lines: lineCount, sha256, imported: false, continues: null };
}

async function insertBill(
  client: ClientBase,
  batchKey: string,
  file: string,
  identity: BillIdentity,
  earlier: readonly EarlierBill[],
): Promise<ImportedBill> {
  const continues = earlier.find(({ bytes, sha256 }) => identity.beginnings.get(bytes) === sha256)?.id ?? null;
  const { rows } = await client.query<{ id: number }>(
    `INSERT INTO madrugada.bill (batch_key, source, format, sha256, byte_count, line_count, continues)
     VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`,
    [batchKey, resolve(file), FORMAT, identity.sha256, identity.byteCount, identity.lineCount, continues],
  );
  const [bill] = rows;
  if (!bill) throw new Error('the inserted bill did not come back');
  await copyRows(client, COPY, billRows(bill.id, file, identity));
  return { id: bill.id, lines: identity.lineCount, sha256: identity.sha256, imported: true, continues };
}

async function* billRows(bill: number, file: string, identity: BillIdentity): AsyncGenerator<string> {
  for await (const line of readBill(file, identity)) {
    yield copyRow([
      bill,
      line.lineNo,
      line.providerRequestId,
      line.messageId,
      line.tag,
      line.at,
      line.model,
      line.inputTokens,
      line.outputTokens,
      line.costUsd,
      line.raw,
    ]);
  }
}

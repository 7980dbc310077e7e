import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import Big from 'big.js';
import type { Pool } from 'pg';
import { importBill } from '../bill/import-bill.ts';
import type { Stage } from './stage.ts';

/** What one run came to. Charges and dollars are the provider's, who knows nothing of the journal. */
export interface Figures {
  name: string;
  tasks: number;
  completed: number;
  /** Charges on the bill. */
  calls: number;
  usd: Big;
  /** Requests that stand on the bill again, counted on the bill alone. */
  duplicates: number;
  duplicatesUsd: Big;
  /** Calls (`key seq`) whose double payment was announced before the bill was read. */
  named: Set<string>;
  /** Calls that the audit view finds charged twice, and whether it knew. */
  auditDuplicates: { call: string; named: boolean }[];
  /** Lines in which journal and bill differ. */
  unmatched: number;
  /** Calls with an answer in the journal. */
  answered: number;
  question: { attempts: number; charges: number };
  replayed: number;
  seconds: number;
}

/** Reads the doubts, then the bill, then the audit views: in this order, because doubts must be known before the bill is. */
export async function readFigures(stage: Stage, named: Set<string>, seconds: number): Promise<Figures> {
  const { pool, batchKey, provider, options } = stage;
  await importIntoDatabase(pool, batchKey, provider.bill);
  const bill = await readBillAlone(provider.bill);
  const totals = await one<{ completed: number; calls: number }>(
    pool,
    'SELECT completed, calls FROM madrugada.audit_batch_totals WHERE batch_key = $1',
    batchKey,
  );
  const question = await one<{ attempts: number; charges: number }>(
    pool,
    'SELECT attempts, bill_charges AS charges FROM madrugada.audit_task_charges WHERE key = $1',
    stage.questionKey(),
  );
  const { unmatched } = await one<{ unmatched: number }>(
    pool,
    'SELECT count(*) AS unmatched FROM madrugada.audit_unmatched WHERE batch_key = $1',
    batchKey,
  );
  const { rows: auditDuplicates } = await pool.query<{ call: string; named: boolean }>(
    `SELECT key || ' ' || seq AS call, named_in_doubt AS named FROM madrugada.audit_duplicate_charges WHERE batch_key = $1`,
    [batchKey],
  );
  return {
    name: options.name,
    tasks: options.tasks,
    ...bill,
    named,
    auditDuplicates,
    unmatched,
    completed: totals.completed,
    answered: totals.calls,
    question,
    replayed: stage.replayed,
    seconds,
  };
}

/** The calls that may have been paid twice, as the journal alone knows them: in doubt, or answered twice. */
export async function namedInDoubt({ pool, batchKey }: Pick<Stage, 'pool' | 'batchKey'>): Promise<Set<string>> {
  const { rows } = await pool.query<{ call: string }>(
    `SELECT key || ' ' || seq AS call FROM madrugada.audit_in_doubt WHERE batch_key = $1
     UNION
     SELECT t.key || ' ' || j.seq FROM madrugada.audit_journal_charges j JOIN madrugada.task t ON t.id = j.task_id
      WHERE j.batch_key = $1 GROUP BY t.key, j.seq HAVING count(*) > 1`,
    [batchKey],
  );
  return new Set(rows.map(({ call }) => call));
}

async function importIntoDatabase(pool: Pool, batchKey: string, bill: string): Promise<void> {
  const client = await pool.connect();
  try {
    await importBill(client, batchKey, bill, 'rehearsal');
  } finally {
    client.release();
  }
}

/** The bill read without the database: what a stranger with the file would count. Every request of the example agent is different. */
export async function readBillAlone(
  file: string,
): Promise<Pick<Figures, 'calls' | 'usd' | 'duplicates' | 'duplicatesUsd'>> {
  const seen = new Set<string>();
  const sum = { calls: 0, usd: new Big(0), duplicates: 0, duplicatesUsd: new Big(0) };
  for await (const line of createInterface(createReadStream(file))) {
    const { request_sha256, cost_usd } = JSON.parse(line) as { request_sha256: string; cost_usd: string };
    sum.calls += 1;
    sum.usd = sum.usd.plus(cost_usd);
    if (seen.has(request_sha256)) {
      sum.duplicates += 1;
      sum.duplicatesUsd = sum.duplicatesUsd.plus(cost_usd);
    }
    seen.add(request_sha256);
  }
  return sum;
}

async function one<Row extends object>(pool: Pool, sql: string, parameter: string): Promise<Row> {
  const { rows } = await pool.query<Row>(sql, [parameter]);
  const [row] = rows;
  if (row === undefined) throw new Error(`no row for ${parameter}`);
  return row;
}

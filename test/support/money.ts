import Big from 'big.js';
import { type BatchLimits, setBatchLimits, setMonthLimit } from '../../src/batch/budget.ts';
import { openClient } from '../../src/postgres/connect.ts';
import type { TestDatabase } from './database.ts';

/** The proof of invariant 7 for a batch: what the audit view says. */
export interface Proof {
  budget: string | null;
  drawn: string;
  spent: string;
  held: string;
  allowances: string;
  wrongAttempts: number;
  holds: boolean;
}

export async function proofOf({ pool }: TestDatabase, batchKey: string): Promise<Proof> {
  const { rows } = await pool.query<Proof>(
    `SELECT budget_usd AS budget, trim_scale(drawn_usd) AS drawn, trim_scale(spent_usd) AS spent, trim_scale(held_usd) AS held,
            trim_scale(allowances_usd) AS allowances,
            wrong_attempts::integer AS "wrongAttempts", holds
       FROM madrugada.audit_budget WHERE batch_key = $1`,
    [batchKey],
  );
  const [proof] = rows;
  if (proof === undefined) throw new Error(`no budget of batch ${batchKey}`);
  return proof;
}

/** Looks after budgets once, as a worker process does every second. */
export async function tend({ pool }: TestDatabase): Promise<void> {
  await pool.query('SELECT madrugada.tend_budgets()');
}

const SAID = { by: 'ana', reason: 'the test' };

/** A person changes what a batch may spend. */
export async function limitBatch(db: TestDatabase, batchKey: string, changes: Partial<BatchLimits>): Promise<void> {
  await asOperator(db, (client) => setBatchLimits(client, batchKey, changes, SAID));
}

/** A person changes what a month may cost. */
export async function limitMonth(db: TestDatabase, month: string, capUsd: string | null): Promise<void> {
  await asOperator(db, (client) => setMonthLimit(client, month, capUsd, SAID));
}

/** The worst cases of the dispatches of a batch, in the order in which they were sent. */
export async function worstCasesOf({ pool }: TestDatabase, batchKey: string): Promise<Big[]> {
  const { rows } = await pool.query<{ usd: string }>(
    'SELECT worst_case_usd AS usd FROM madrugada.call_intent WHERE batch_key = $1 ORDER BY task_id, seq, dispatch',
    [batchKey],
  );
  return rows.map(({ usd }) => new Big(usd));
}

export async function stateOf(
  { pool }: TestDatabase,
  batchKey: string,
): Promise<{ state: string; reason: string | null }> {
  const { rows } = await pool.query<{ state: string; reason: string | null }>(
    'SELECT state, stop_reason AS reason FROM madrugada.batch WHERE batch_key = $1',
    [batchKey],
  );
  const [row] = rows;
  if (row === undefined) throw new Error(`no batch ${batchKey}`);
  return row;
}

type Client = Parameters<typeof setBatchLimits>[0];

async function asOperator(db: TestDatabase, work: (client: Client) => Promise<unknown>): Promise<void> {
  const client = await openClient({ url: db.url, as: 'operator', applicationName: 'madrugada test budget' });
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

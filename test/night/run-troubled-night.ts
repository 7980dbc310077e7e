import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Pool } from 'pg';
import { loadBatch } from '../../src/batch/load-batch.ts';
import type { NewTask } from '../../src/batch/read-tasks.ts';
import { importBill } from '../../src/bill/import-bill.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { startSimulatedProvider } from '../../src/rehearsal/simulated-provider.ts';
import { runCommand } from '../support/command.ts';
import { BURST, contradictedClaims, FIGURES } from './troubled-claims.ts';

const AGENT = fileURLToPath(new URL('../support/agents/patient-reader.ts', import.meta.url));
/** The share of the dispatches that something happens to. */
const TROUBLED = '0.2';
/** Requests a minute for each model, as announced; so few at once that the fleet meets the limit with its first calls. */
const PER_MINUTE = 480;
/** What a person would set for a provider that answers within a second; dispatches and calls have as many tries as they need. */
const LIMITS = {
  MADRUGADA_IDLE_SECONDS: '2',
  MADRUGADA_HEADERS_SECONDS: '3',
  MADRUGADA_DISPATCH_SECONDS: '8',
  MADRUGADA_MAX_DISPATCHES: '40',
  MADRUGADA_CALL_SECONDS: '900',
};

export interface TroubledNightStart {
  /** A migrated database, and connections of its superuser. */
  url: string;
  pool: Pool;
  /** Where bill and arrivals go. */
  folder: string;
  tasks: number;
  seed: string;
  workers: number;
  concurrency: number;
}

export interface TroubledNight {
  /** Claims that did not hold. */
  problems: string[];
  figures: { words: string; number: string }[];
  /** How often each thing happened to a request. */
  fates: Map<string, number>;
}

/** One night of worker processes against a provider in trouble, without a look-up, and what its journal, bill and arrivals prove. */
export async function runTroubledNight(start: TroubledNightStart): Promise<TroubledNight> {
  const { url, pool, folder, tasks, seed, workers, concurrency } = start;
  const arrivals = join(folder, 'arrivals.jsonl');
  const batchKey = await load(url, tasks);
  const provider = await startSimulatedProvider(join(folder, 'bill.jsonl'), [
    ...['--faults', TROUBLED, '--seed', seed, '--latency-ms', '20-120', '--retry-after', '1,700ms,1date'],
    ...['--requests-per-minute', String(PER_MINUTE), '--burst', String(BURST), '--arrivals', arrivals],
  ]);
  const counts = ['--workers', String(workers), '--concurrency', String(concurrency)];
  const { code, stderr } = await runCommand(['run', batchKey, '--json', ...counts], {
    folder,
    environment: { DATABASE_URL: url, ...provider.environment, ...LIMITS, MADRUGADA_LOOK_UP: '' },
  }).finally(() => provider.stop());
  await pool.query('CREATE TABLE named AS SELECT * FROM madrugada.audit_in_doubt WHERE batch_key = $1', [batchKey]);
  await pool.query('CREATE TABLE exposed AS SELECT * FROM madrugada.audit_exposure WHERE batch_key = $1', [batchKey]);
  const client = await pool.connect();
  await importBill(client, batchKey, provider.bill, 'troubled').finally(() => client.release());
  await keepArrivals(pool, arrivals);
  const problems = await contradictedClaims(pool, batchKey, PER_MINUTE);
  if (code !== 0) problems.push(`the night ended with exit code ${code}: ${stderr.slice(-2000)}`);
  const { rows: figures } = await pool.query(FIGURES, [batchKey, PER_MINUTE]);
  const { rows: fates } = await pool.query('SELECT fate, count(*) AS count FROM arrival GROUP BY fate ORDER BY fate');
  return { problems, figures, fates: new Map(fates.map(({ fate, count }) => [fate, Number(count)])) };
}

async function load(url: string, count: number): Promise<string> {
  const client = await openClient({ url, as: 'operator', applicationName: 'madrugada/troubled load' });
  try {
    const batch = { id: 'troubled', version: 'v1', agent: AGENT, agentOptions: {}, maxAttempts: 3, leaseSeconds: 600 };
    return (await loadBatch(client, { ...batch, doubtPolicy: 'pay_again' }, questions(count))).batchKey;
  } finally {
    await client.end();
  }
}

async function* questions(count: number): AsyncGenerator<NewTask> {
  for (let position = 1; position <= count; position += 1)
    yield { position, item: String(position), inputJson: JSON.stringify({ question: `question ${position}` }) };
}

async function keepArrivals(pool: Pool, file: string): Promise<void> {
  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
  await pool.query('CREATE TABLE arrival (received_at timestamptz, tag text, model text, fate text)');
  await pool.query(
    'INSERT INTO arrival SELECT * FROM jsonb_to_recordset($1) AS a (received_at timestamptz, tag text, model text, fate text)',
    [`[${lines.join(',')}]`],
  );
  await pool.query('ANALYZE');
}

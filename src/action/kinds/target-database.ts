import pg from 'pg';
import { MadrugadaError, messageOf } from '../../errors.ts';
import { failpoint } from '../../failpoint.ts';
import { isConnectionLoss } from '../../postgres/connection-loss.ts';
import { valueTypes } from '../../postgres/value-types.ts';
import { throwIfOver } from '../deadline.ts';
import type { ActionContext } from '../define-action.ts';
import type { Sql } from './sql.ts';

/** Where the rows live: the name of the environment variable that holds the URL, or a function that gives it. It is kept nowhere. */
export type TargetUrl = string | (() => string | Promise<string>);

/** One transaction in the target. */
export interface Target {
  rows<Row extends pg.QueryResultRow>(statement: Sql): Promise<Row[]>;
}

const CONNECTION_TIMEOUT_MS = 10_000;
const QUERY_TIMEOUT_MS = 60_000;

/**
 * Of the transaction only, so that a pooler in between does no harm. Rows become the same JSON whatever the server's own settings are, and the
 * server notices within about 2 s that we are gone.
 */
const SETTINGS = `SELECT set_config('TimeZone', 'UTC', true), set_config('IntervalStyle', 'postgres', true),
  set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true),
  set_config('client_connection_check_interval', '2000', true)`;

/** SQLSTATEs after which the same statement may succeed: serialization, deadlock, a lock not given in time, a cancelled statement. */
const TRY_AGAIN = new Set(['40001', '40P01', '55P03', '57014']);

/** True when the target itself said no, and would say so again; what was under way has been rolled back. */
export function isRefusal(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError && !isConnectionLoss(error) && !TRY_AGAIN.has(error.code ?? '');
}

/** Runs `work` in a transaction of the target that is committed. An error at the commit leaves open whether it was. */
export function changeTarget<T>(url: TargetUrl, context: ActionContext, work: (target: Target) => Promise<T>) {
  return withTransaction(url, context, work, async (client) => {
    await failpoint('action.postgres.written', context.key);
    throwIfOver(context.signal);
    const { command } = await client.query('COMMIT');
    if (command !== 'COMMIT') throw new Error('the target database rolled back instead of committing');
    await failpoint('action.postgres.committed', context.key);
  });
}

/** Runs `work` in a transaction of the target that changes nothing. */
export function readTarget<T>(url: TargetUrl, context: ActionContext, work: (target: Target) => Promise<T>) {
  return withTransaction(url, context, work, async (client) => {
    await client.query('ROLLBACK');
  });
}

async function withTransaction<T>(
  url: TargetUrl,
  { key, signal }: ActionContext,
  work: (target: Target) => Promise<T>,
  end: (client: pg.Client) => Promise<void>,
): Promise<T> {
  signal.throwIfAborted();
  const client = await connect(url, key);
  // Ends the connection even while a statement waits; the server then rolls back.
  const hangUp = () => void client.end().catch(() => undefined);
  signal.addEventListener('abort', hangUp, { once: true });
  try {
    await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
    await client.query(SETTINGS);
    const result = await work({ rows: async (statement) => (await client.query(statement)).rows });
    await end(client);
    return result;
  } finally {
    signal.removeEventListener('abort', hangUp);
    await client.end().catch(() => undefined); // an open transaction ends with its connection
  }
}

async function connect(url: TargetUrl, key: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: await resolveUrl(url),
    application_name: `madrugada action ${key.slice(0, 16)}`,
    connectionTimeoutMillis: CONNECTION_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    types: valueTypes,
  });
  client.on('error', () => undefined); // the query under way is rejected
  try {
    await client.connect();
    return client;
  } catch (error) {
    void client.end().catch(() => undefined);
    // Without the cause, which names host and user.
    throw new MadrugadaError(`${nameOf(url)} cannot be reached (${codeOf(error)})`, 3);
  }
}

function codeOf(error: unknown): string {
  if (error instanceof AggregateError) return codeOf(error.errors[0]); // a host with several addresses
  return error instanceof Error && 'code' in error ? String(error.code) : 'no answer';
}

async function resolveUrl(url: TargetUrl): Promise<string> {
  const given = typeof url === 'string' ? process.env[url] : await url();
  if (given === undefined || given === '')
    throw new MadrugadaError(`${nameOf(url)} has no URL; set it where the worker runs`);
  if (!/^postgres(ql)?:\/\//.test(given) || !URL.canParse(given))
    throw new MadrugadaError(`${nameOf(url)} is not a URL of the form postgres://USER:PASSWORD@HOST:PORT/DATABASE`);
  return given;
}

function nameOf(url: TargetUrl): string {
  return typeof url === 'string' ? `the target database (${url})` : 'the target database';
}

/** What the target said, for whoever reads the action. */
export function refusalOf(error: pg.DatabaseError): string {
  return `the target database refused: ${messageOf(error)} (${error.code})`;
}

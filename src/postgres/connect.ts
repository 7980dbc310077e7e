import pg from 'pg';
import { parseDatabaseUrl } from './parse-url.ts';
import { valueTypes } from './value-types.ts';

/** Database roles (`madrugada_<name>`) that a connection can run under; what each may do is in the grants of the migrations. */
export type DatabaseRole = 'owner' | 'worker' | 'operator' | 'approver' | 'auditor';

/** How to connect. */
export interface ConnectionOptions {
  url: string;
  /** The role to run under; without it, the login user itself, as migrations need. */
  as?: DatabaseRole;
  /** Shown in pg_stat_activity, and used to find the remains of a dead process. At most 63 bytes. */
  applicationName: string;
  /** Milliseconds after which a statement is given up on this side, even if the network is silent. 0: never. */
  queryTimeoutMs?: number;
}

/** Options of a pool: as many as `max` connections, opened when needed. */
export interface PoolOptions extends ConnectionOptions {
  max: number;
}

const QUERY_TIMEOUT_MS = 60_000;
const CONNECTION_TIMEOUT_MS = 10_000;
const KEEPALIVE_DELAY_MS = 10_000;

/**
 * Session settings that let the server notice a vanished client: within about 30 s of network silence, and within 2 s of its
 * death even while a statement runs, so that locks of a dead process are soon free.
 */
const LIVENESS = {
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '5',
  tcp_keepalives_count: '4',
  tcp_user_timeout: '30000',
  client_connection_check_interval: '2000',
};

/** A pool of connections. Killed idle connections are replaced silently; a killed one in use rejects its query. */
export function openPool({ max, ...options }: PoolOptions): pg.Pool {
  const pool = new pg.Pool({ ...clientConfig(options), max });
  // Not swallowed: an idle connection had no query to fail, and the pool has already dropped it.
  pool.on('error', ignoreLoss);
  // While a client is checked out, the pool does not listen; its loss reaches the holder through the rejected query.
  pool.on('connect', (client) => client.on('error', ignoreLoss));
  return pool;
}

/** One open connection. Its loss rejects the query under way; without one, listen for `end` (and `error` for the reason). */
export async function openClient(options: ConnectionOptions): Promise<pg.Client> {
  const client = new pg.Client(clientConfig(options));
  client.on('error', ignoreLoss);
  await client.connect();
  return client;
}

/** An `error` event without a listener would end the process because somebody restarted the database. */
function ignoreLoss(): void {}

function clientConfig({
  url,
  as,
  applicationName,
  queryTimeoutMs = QUERY_TIMEOUT_MS,
}: ConnectionOptions): pg.ClientConfig {
  const { connectionString, options } = separateOptions(url);
  return {
    connectionString,
    options: [options, ...sessionSettings(as)].join(' ').trim(),
    application_name: applicationName,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEPALIVE_DELAY_MS,
    connectionTimeoutMillis: CONNECTION_TIMEOUT_MS,
    query_timeout: queryTimeoutMs,
    types: valueTypes,
  };
}

function sessionSettings(as: DatabaseRole | undefined): string[] {
  const settings = Object.entries({ ...LIVENESS, search_path: 'madrugada,pg_catalog' });
  const role = as === undefined ? [] : [`-c role=madrugada_${as}`];
  return [...settings.map(([name, value]) => `-c ${name}=${value}`), ...role];
}

/** What stands in a URL wins over the configuration in node-postgres: options there would drop the role. */
function separateOptions(url: string): { connectionString: string; options: string } {
  const parsed = parseDatabaseUrl(url);
  const options = parsed.searchParams.get('options') ?? '';
  for (const name of ['options', 'application_name']) parsed.searchParams.delete(name);
  return { connectionString: parsed.href, options };
}

import pg from 'pg';

/** The roles of db/migrations/0001_roles.sql, without their prefix. */
export type DatabaseRole = 'owner' | 'worker' | 'operator' | 'approver' | 'auditor';

export interface ConnectionOptions {
  url: string;
  /** The role the connection runs under; without it, the login user itself. */
  as?: DatabaseRole;
  /** Shown in pg_stat_activity; a dead worker's connections are found by it (rule R7). */
  applicationName: string;
}

/** A statement that takes longer than this on the client's clock counts as lost with its connection, in milliseconds. */
const STATEMENT_MS = 60_000;
const CONNECT_MS = 10_000;

/**
 * Kept-alive connections that notice a dead peer within about 30 s, set from the session because the server's defaults take hours (rule R12).
 * Unless the role can be assumed, connecting fails: nobody works with more rights than meant.
 */
function sessionSettings(as: DatabaseRole | undefined): string {
  const settings: Record<string, string> = {
    search_path: 'madrugada,pg_catalog',
    tcp_keepalives_idle: '10',
    tcp_keepalives_interval: '5',
    tcp_keepalives_count: '4',
    tcp_user_timeout: '30000',
    ...(as && { role: `madrugada_${as}` }),
  };
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ');
}

/** bigint as a number (ids and counters stay far below 2^53), numeric as its exact text, JSON parsed. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: string) =>
    oid === pg.types.builtins.INT8 && format !== 'binary' ? Number : pg.types.getTypeParser(oid, format as 'text'),
};

function config({ url, as, applicationName }: ConnectionOptions): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: applicationName,
    options: sessionSettings(as),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: STATEMENT_MS,
    types,
  };
}

/** A pool; connections that are lost while idle are replaced when next needed. `max` connections at most. */
export function openPool(options: ConnectionOptions & { max: number }): pg.Pool {
  const pool = new pg.Pool({ ...config(options), max: options.max });
  pool.on('error', () => undefined); // an idle connection was lost: whoever needs one next gets a new one, or that error
  return pool;
}

/** One connected client. Whoever uses it finds out about its loss by the query that fails, or by event `end`. */
export async function openClient(options: ConnectionOptions): Promise<pg.Client> {
  const client = new pg.Client(config(options));
  client.on('error', () => undefined); // also reported by the query under way and by event `end`
  await client.connect();
  return client;
}

import type { QueryResult, QueryResultRow } from 'pg';

/** A connection or a pool: whatever runs one statement. */
export type Queryable = {
  query<R extends QueryResultRow>(text: string, values?: unknown[]): Promise<QueryResult<R>>;
};

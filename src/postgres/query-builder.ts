import {
  type Compilable,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely';
import type { QueryResult, QueryResultRow } from 'pg';
import type { DB } from './schema-types.ts';

/**
 * Builds typed queries on the schema `madrugada`: a renamed column is an error of the compiler. Only builds: connections stay with
 * `openPool`, so `rowsOf` runs the queries. For what people read; hot statements and anything beyond SELECT stay plain SQL.
 */
export const schema = new Kysely<DB>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
}).withSchema('madrugada');

/** Runs a built query. */
export async function rowsOf<Row extends QueryResultRow>(
  db: { query<R extends QueryResultRow>(text: string, values: unknown[]): Promise<QueryResult<R>> },
  query: Compilable<Row>,
): Promise<Row[]> {
  const { sql, parameters } = query.compile();
  const { rows } = await db.query<Row>(sql, [...parameters]);
  return rows;
}

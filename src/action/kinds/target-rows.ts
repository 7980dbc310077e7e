import { list, named, type Sql, sql } from './sql.ts';
import type { Target } from './target-database.ts';

/** Which part of a table an action is about. */
export interface Relation {
  /** `account` or `bank.account`. */
  table: string;
  /** The columns that identify a row; an action never changes them. */
  key: readonly string[];
  /** The columns concerned: what is compared, shown to people, and restored. */
  columns: readonly string[];
}

/** One row for people and for JSON: every value as the text that Postgres gives, so that money stays exact. */
export type TargetRow = Record<string, unknown>;

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;

/** Rows as they were read, from the text of their jsonb: a number becomes the text it was. */
export function readable(rows: string): TargetRow[] {
  return parseWithSource(rows, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? source : value,
  ) as TargetRow[];
}

/** How the relation is called in the key table and to people: `bank.account (id, balance)`. */
export function nameOfRelation({ table, key, columns }: Relation): string {
  return `${table} (${[...key, ...columns].join(', ')})`;
}

const columnsOf = ({ key, columns }: Relation): Sql => list([...key, ...columns].map(named));
const keyOf = ({ key }: Relation): Sql => list(key.map(named));

/** The rows of `query` as one jsonb in the order of their keys, so that equal sets of rows are equal values. */
function gathered(relation: Relation, query: Sql): Sql {
  return sql`(SELECT coalesce(jsonb_agg(to_jsonb(r) ORDER BY ${keyOf(relation)}), '[]'::jsonb)
    FROM (SELECT ${columnsOf(relation)} FROM ${query} q) r)`;
}

/** jsonb rows as rows of the table. */
function spread(relation: Relation, rows: Sql): Sql {
  return sql`(SELECT ${columnsOf(relation)} FROM jsonb_populate_recordset(NULL::${named(relation.table)}, ${rows}) s)`;
}

/** The rows of the table that have the keys of the jsonb `rows`. */
function current(relation: Relation, rows: Sql): Sql {
  const columns = list([...relation.key, ...relation.columns].map((column) => sql`t.${named(column)}`));
  return sql`(SELECT ${columns} FROM ${named(relation.table)} t JOIN ${spread(relation, rows)} w USING (${keyOf(relation)}))`;
}

/** Rows that satisfy `where`, as jsonb text; locked in the order of their keys, so that two actions never wait for each other in a circle. */
export async function selectRows(
  target: Target,
  relation: Relation,
  where: Sql,
  lock: 'lock' | 'look',
): Promise<string> {
  const forUpdate = lock === 'lock' ? sql` FOR UPDATE` : sql``;
  return one(
    target,
    sql`WITH found AS (SELECT ${columnsOf(relation)} FROM ${named(relation.table)} WHERE ${where} ORDER BY ${keyOf(relation)}${forUpdate})
      SELECT ${gathered(relation, sql`found`)}::text AS value`,
  );
}

/** Locks the rows that have the keys of `rows`, and returns them as they are now. */
export async function lockSame(target: Target, relation: Relation, rows: string): Promise<string> {
  const keys = sql`(SELECT ${keyOf(relation)} FROM ${spread(relation, sql`${rows}::jsonb`)} w)`;
  return selectRows(target, relation, sql`(${keyOf(relation)}) IN ${keys}`, 'lock');
}

/** Evaluates a condition over the relation `locked`; anything but true is false. */
export async function holds(target: Target, relation: Relation, locked: string, condition: Sql): Promise<boolean> {
  return one(target, sql`${withLocked(relation, locked)} SELECT (${condition}) IS TRUE AS value`);
}

/** The rows that a query over the relation `locked` gives, as jsonb text. */
export async function computeRows(target: Target, relation: Relation, locked: string, query: Sql): Promise<string> {
  return one(
    target,
    sql`${withLocked(relation, locked)}, answer AS (${query}) SELECT ${gathered(relation, sql`answer`)}::text AS value`,
  );
}

function withLocked(relation: Relation, locked: string): Sql {
  return sql`WITH locked AS ${spread(relation, sql`${locked}::jsonb`)}`;
}

/** Runs an UPDATE … RETURNING, and returns what it returned, as jsonb text. */
export async function updateRows(target: Target, relation: Relation, update: Sql): Promise<string> {
  return one(target, sql`WITH written AS (${update}) SELECT ${gathered(relation, sql`written`)}::text AS value`);
}

/** Gives the rows the values that they have in `rows`. */
export async function restoreRows(target: Target, relation: Relation, rows: string): Promise<void> {
  const assignments = relation.columns.map((column) => sql`${named(column)} = w.${named(column)}`);
  const same = and(relation.key.map((column) => sql`t.${named(column)} = w.${named(column)}`));
  await target.rows(
    sql`UPDATE ${named(relation.table)} t SET ${list(assignments)} FROM ${spread(relation, sql`${rows}::jsonb`)} w WHERE ${same}`,
  );
}

function and(conditions: readonly Sql[]): Sql {
  return conditions.reduce((all, condition) => sql`${all} AND ${condition}`);
}

/**
 * Are the rows in the table now those of `rows`, once everything that the target does on a change has been done? Triggers deferred to the
 * commit run here, where it can still be rolled back.
 */
export async function standsAs(target: Target, relation: Relation, rows: string): Promise<boolean> {
  await target.rows(sql`SET CONSTRAINTS ALL IMMEDIATE`);
  return one(
    target,
    sql`SELECT ${gathered(relation, current(relation, sql`${rows}::jsonb`))} = ${rows}::jsonb AS value`,
  );
}

/** Row equality as Postgres sees it: 1.0 is 1.00. */
export async function sameRows(target: Target, a: string, b: string): Promise<boolean> {
  return one(target, sql`SELECT ${a}::jsonb = ${b}::jsonb AS value`);
}

async function one<T>(target: Target, statement: Sql): Promise<T> {
  const [row] = await target.rows<{ value: T }>(statement);
  if (row === undefined) throw new Error('the target database answered nothing');
  return row.value;
}

/** What is on record of an action in the target, and what its rows are now; rows as jsonb text. */
export interface KeyRow {
  seq: number;
  at: string;
  before: string;
  intended: string;
  now: string;
  /** Are the rows what the action wrote? */
  stands: boolean;
  undoneAt: string | null;
}

/** The key row of an action, and its rows as they are now, in one snapshot. */
export async function findKeyRow(
  target: Target,
  relation: Relation,
  keyTable: string,
  key: string,
): Promise<KeyRow | undefined> {
  const now = gathered(relation, current(relation, sql`k.intended`));
  const [row] = await target.rows<KeyRow>(
    sql`SELECT seq, to_jsonb(at) #>> '{}' AS at, before::text, intended::text, to_jsonb(undone_at) #>> '{}' AS "undoneAt",
        now::text, now = intended AS stands
      FROM (SELECT k.*, ${now} AS now FROM ${named(keyTable)} k WHERE k.key = ${key}) k`,
  );
  return row;
}

/**
 * The keys of the later actions that explain, without a gap, why the rows are no longer as the action `key` left them: each found what the one
 * before had left, and the last left what is there now. Undefined when somebody else had a hand in it. Served by the key table's unique index
 * on `seq`: few actions are later than one being read back.
 */
export async function findSuccessors(
  target: Target,
  relation: Relation,
  keyTable: string,
  key: string,
): Promise<string[] | undefined> {
  const identity = (row: Sql) =>
    sql`jsonb_build_array(${list(relation.key.map((column) => sql`${row} -> ${column}::text`))})`;
  const [found] = await target.rows<{ explained: boolean | null; keys: string[] | null }>(
    sql`WITH mine AS (SELECT seq, intended, relation FROM ${named(keyTable)} WHERE key = ${key}),
      touched AS (
        SELECT k.key, k.seq, ${identity(sql`a.row`)} AS identity, b.row AS found, a.row AS left_behind
        FROM mine JOIN ${named(keyTable)} k ON k.seq >= mine.seq AND k.relation = mine.relation AND k.undone_at IS NULL
        CROSS JOIN LATERAL jsonb_array_elements(k.intended) AS a(row)
        JOIN LATERAL jsonb_array_elements(k.before) AS b(row) ON ${identity(sql`b.row`)} = ${identity(sql`a.row`)}
        WHERE ${identity(sql`a.row`)} IN (SELECT ${identity(sql`m.row`)} FROM mine, jsonb_array_elements(mine.intended) AS m(row))),
      chain AS (
        SELECT key, seq, identity, found, left_behind, lag(left_behind) OVER by_row AS previous, lead(seq) OVER by_row IS NULL AS is_last
        FROM touched WINDOW by_row AS (PARTITION BY identity ORDER BY seq)),
      now AS (SELECT n.row, ${identity(sql`n.row`)} AS identity
        FROM mine, jsonb_array_elements(${gathered(relation, current(relation, sql`mine.intended`))}) AS n(row))
      SELECT bool_and((previous IS NULL OR previous = found) AND (NOT is_last OR left_behind IS NOT DISTINCT FROM now.row)) AS explained,
        array_agg(DISTINCT key) FILTER (WHERE key <> ${key}) AS keys
      FROM chain LEFT JOIN now USING (identity)`,
  );
  return found?.explained === true ? (found.keys ?? []) : undefined;
}

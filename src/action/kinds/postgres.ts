import { messageOf } from '../../errors.ts';
import { failpoint } from '../../failpoint.ts';
import {
  type ActionContext,
  type ActionKind,
  NoEffect,
  type Precondition,
  type ReadBack,
  UndoRefused,
} from '../define-action.ts';
import { ACTION_KEY_TABLE } from './action-key-table.ts';
import { named, type Sql, sql } from './sql.ts';
import { changeTarget, isRefusal, readTarget, refusalOf, type Target, type TargetUrl } from './target-database.ts';
import {
  computeRows,
  findKeyRow,
  findSuccessors,
  holds,
  type KeyRow,
  lockSame,
  nameOfRelation,
  type Relation,
  readable,
  restoreRows,
  sameRows,
  selectRows,
  standsAs,
  type TargetRow,
  updateRows,
} from './target-rows.ts';

/** A change of rows in another database, as its owner would write it in SQL. Every function is given the action's arguments. */
export interface PostgresAction<Args> extends Relation {
  /** The environment variable with the target's URL, or a function that gives it; it is kept in no row, log or error. */
  database: TargetUrl;
  /** Which rows are locked and changed: what stands after WHERE. `SELECT key, columns FROM table WHERE … ORDER BY key FOR UPDATE`. */
  where(args: Args): Sql;
  /** How many rows that must be; 1 by default. A transfer says 2: an account that is missing, or is its own counterpart, stops it. */
  rows?: number;
  /** A condition over the relation `locked`, those rows: `(SELECT balance FROM locked WHERE id = ${from}) >= ${amount}`. Not true: no effect. */
  precondition(args: Args): Sql;
  /** What the precondition means, for people: `the account has less than the amount`. */
  otherwise: string | ((args: Args) => string);
  /** `UPDATE … RETURNING key, columns`. It must change nothing but `columns`. */
  update(args: Args): Sql;
  /** A query over `locked` that gives the key and columns of every row as it is to be; RETURNING must equal it. */
  intended(args: Args): Sql;
  /** Where the target keeps the keys of actions (`ACTION_KEY_TABLE` creates it); `madrugada_action_key` by default. */
  keyTable?: string;
  /** Milliseconds that a read-back waits for an execution with its key that is under way; then it finds `unknown`. 10,000 by default. */
  waitForExecution?: number;
}

/** The rows as they were when the precondition was looked at. What an undo restores is in the target's key row. */
export interface PostgresBefore {
  rows: TargetRow[];
}

/** The rows as they were written, and when by the target's clock. */
export interface PostgresEffect {
  at: string;
  rows: TargetRow[];
}

const WAIT_FOR_EXECUTION_MS = 10_000;
const NEVER_COMMITTED = 'nothing was committed';

/**
 * Changes rows in another Postgres. Precondition, key row and effect are one transaction there, so the effect is in place exactly if the key row is,
 * and a second execution with the same key returns the first one's result. What RETURNING and a re-reading of the rows in that transaction do not
 * find as intended is rolled back. Rows are changed, never inserted or deleted. The undo restores the previous rows, once, and only while they are
 * as the action left them.
 */
export function postgresAction<Args>(declared: PostgresAction<Args>): ActionKind<Args, PostgresBefore, PostgresEffect> {
  const action = new PostgresKind(declared);
  return {
    kind: 'postgres',
    enforcesKey: true,
    present: (args) => action.present(args),
    precondition: (args, context) => action.precondition(args, context),
    execute: (args, _before, context) => action.execute(args, context),
    verify: (args, _before, _effect, context) => action.verify(args, context),
    rollback: {
      kind: 'in-band',
      plan: `Restore ${nameOfRelation(declared)} from the rows kept in ${declared.keyTable ?? 'madrugada_action_key'}, in one transaction, while they are as this action left them.`,
      undo: (_undo, context) => action.undo(context),
    },
  };
}

class PostgresKind<Args> {
  readonly #declared: PostgresAction<Args>;
  readonly #keyTable: string;

  constructor(declared: PostgresAction<Args>) {
    this.#declared = declared;
    this.#keyTable = declared.keyTable ?? 'madrugada_action_key';
  }

  async present(args: Args): Promise<unknown> {
    const context = { key: 'present', signal: AbortSignal.timeout(60_000) };
    const declared = this.#declared;
    return readTarget(declared.database, context, async (target) => {
      const rows = await this.#find(target, args, 'look');
      const intended = await computeRows(target, declared, rows, declared.intended(args)).catch(() => undefined);
      return {
        relation: nameOfRelation(declared),
        rows: readable(rows),
        ...(intended !== undefined && { intended: readable(intended) }), // what cannot be computed from these rows, execution will refuse
      };
    });
  }

  async precondition(args: Args, context: ActionContext): Promise<Precondition<PostgresBefore>> {
    return readTarget(this.#declared.database, context, async (target) => {
      await findKeyRow(target, this.#declared, this.#keyTable, context.key); // a missing table is found before people are asked
      const rows = await this.#find(target, args, 'look');
      const objection = await this.#objection(target, args, rows);
      return objection === undefined
        ? { holds: true as const, before: { rows: readable(rows) } }
        : { holds: false as const, why: objection };
    }).catch((error) => Promise.reject(this.#explained(error)));
  }

  async execute(args: Args, context: ActionContext): Promise<PostgresEffect> {
    try {
      return await changeTarget(this.#declared.database, context, (target) => this.#effect(target, args, context.key));
    } catch (error) {
      if (isRefusal(error)) throw new NoEffect(messageOf(this.#explained(error)), { cause: error });
      throw error;
    }
  }

  async #effect(target: Target, args: Args, key: string): Promise<PostgresEffect> {
    const declared = this.#declared;
    await lockKey(target, key);
    const earlier = await findKeyRow(target, declared, this.#keyTable, key);
    if (earlier !== undefined) return firstResult(earlier);

    const before = await this.#find(target, args, 'lock');
    const objection = await this.#objection(target, args, before);
    if (objection !== undefined) throw new NoEffect(`${objection}; ${NEVER_COMMITTED}`);
    const intended = await computeRows(target, declared, before, declared.intended(args));
    await failpoint('action.postgres.locked', key);
    const at = await this.#insertKeyRow(target, key, before, intended);
    await failpoint('action.postgres.key', key);
    const returned = await updateRows(target, declared, declared.update(args));
    if (!(await sameRows(target, returned, intended)))
      throw new NoEffect(
        `the UPDATE of ${nameOfRelation(declared)} returned ${returned} where ${intended} was intended; ${NEVER_COMMITTED}`,
      );
    if (!(await standsAs(target, declared, intended)))
      throw new NoEffect(
        `something in the target, such as a trigger, made other rows of ${nameOfRelation(declared)} than the intended ${intended}; ${NEVER_COMMITTED}`,
      );
    return { at, rows: readable(intended) };
  }

  async verify(args: Args, context: ActionContext): Promise<ReadBack> {
    const declared = this.#declared;
    return readTarget(declared.database, context, async (target): Promise<ReadBack> => {
      if (!(await isAtRest(target, context.key, declared.waitForExecution ?? WAIT_FOR_EXECUTION_MS)))
        return { found: 'unknown', evidence: { why: 'an execution with this key is under way in the target' } };
      const row = await findKeyRow(target, declared, this.#keyTable, context.key);
      if (row === undefined)
        return { found: 'nothing', evidence: { keyRow: null, now: readable(await this.#find(target, args, 'look')) } };
      const evidence = evidenceOf(declared, row);
      if (row.undoneAt !== null) return { found: 'nothing', evidence };
      if (row.stands) return { found: 'effect', evidence, strength: 'strong' };
      const changedBy = await findSuccessors(target, declared, this.#keyTable, context.key);
      return changedBy === undefined
        ? { found: 'something else', evidence }
        : { found: 'effect', evidence: { ...evidence, changedBy }, strength: 'strong' };
    });
  }

  /** Not compared with what the read-back saw: that the rows are still as this action left them asks for more. */
  async undo({ key, signal }: ActionContext): Promise<void> {
    const declared = this.#declared;
    await changeTarget(declared.database, { key, signal }, async (target) => {
      await lockKey(target, key);
      const row = await findKeyRow(target, declared, this.#keyTable, key);
      if (row === undefined) await this.#insertKeyRow(target, key, '[]', '[]'); // so that no late execution takes effect after this
      if (row === undefined || row.undoneAt === null) await this.#markUndone(target, key);
      if (row === undefined || row.undoneAt !== null) return;
      const now = await lockSame(target, declared, row.intended);
      if (!(await sameRows(target, now, row.intended)))
        throw new UndoRefused(
          `${nameOfRelation(declared)} is now ${now}, and no longer ${row.intended} as this action left it; before the action it was ${row.before}`,
        );
      await restoreRows(target, declared, row.before);
      if (!(await standsAs(target, declared, row.before)))
        throw new Error(`${nameOfRelation(declared)} could not be made ${row.before} again; it is still ${now}`);
    });
  }

  #find(target: Target, args: Args, lock: 'lock' | 'look'): Promise<string> {
    return selectRows(target, this.#declared, this.#declared.where(args), lock);
  }

  /** Why the action may not take effect on these rows; undefined: it may. */
  async #objection(target: Target, args: Args, rows: string): Promise<string | undefined> {
    const { rows: wanted = 1, otherwise, precondition } = this.#declared;
    const found = readable(rows);
    const name = nameOfRelation(this.#declared);
    if (found.length !== wanted) return `${name} has ${found.length} of the rows concerned, not ${wanted}: ${rows}`;
    if (await holds(target, this.#declared, rows, precondition(args))) return undefined;
    return `${typeof otherwise === 'string' ? otherwise : otherwise(args)}: ${name} is ${rows}`;
  }

  async #insertKeyRow(target: Target, key: string, before: string, intended: string): Promise<string> {
    const [row] = await target.rows<{ at: string }>(
      sql`INSERT INTO ${named(this.#keyTable)} (key, relation, before, intended)
        VALUES (${key}, ${nameOfRelation(this.#declared)}, ${before}, ${intended})
        ON CONFLICT (key) DO NOTHING RETURNING to_jsonb(at) #>> '{}' AS at`,
    );
    if (row === undefined)
      throw new Error(`${this.#keyTable} has got a row for this key from somebody who did not wait`);
    return row.at;
  }

  async #markUndone(target: Target, key: string): Promise<void> {
    await target.rows(sql`UPDATE ${named(this.#keyTable)} SET undone_at = clock_timestamp() WHERE key = ${key}`);
  }

  #explained(error: unknown): unknown {
    if (!isRefusal(error)) return error;
    const isKeyTable = error.code === '42P01' && error.message.includes(this.#keyTable.split('.').at(-1) ?? '');
    return new Error(
      isKeyTable ? `${refusalOf(error)}; its owner creates it once: ${ACTION_KEY_TABLE}` : refusalOf(error),
    );
  }
}

function firstResult({ at, intended, undoneAt }: KeyRow): PostgresEffect {
  if (undoneAt !== null) throw new NoEffect(`this action was undone at ${undoneAt}; propose it again`);
  return { at, rows: readable(intended) };
}

function evidenceOf(relation: Relation, { at, undoneAt, before, intended, now }: KeyRow) {
  const rows = { before: readable(before), intended: readable(intended), now: readable(now) };
  return { relation: nameOfRelation(relation), keyRow: { at, undoneAt }, ...rows };
}

/** Until its transaction ends no other execution, undo or read-back of this key goes on: none sees a moment in between. */
async function lockKey(target: Target, key: string): Promise<void> {
  await target.rows(sql`SELECT pg_advisory_xact_lock(hashtextextended(${`madrugada action ${key}`}, 0))`);
}

/** Waits until no execution of this key is under way; false when one still is. */
async function isAtRest(target: Target, key: string, waitMs: number): Promise<boolean> {
  try {
    await target.rows(sql`SELECT set_config('lock_timeout', ${String(waitMs)}, true)`);
    await target.rows(sql`SELECT pg_advisory_xact_lock_shared(hashtextextended(${`madrugada action ${key}`}, 0))`);
    return true;
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === '55P03')) throw error;
    return false;
  }
}

import type { Pool } from 'pg';
import { messageOf } from '../errors.ts';
import type { Lease } from '../journal/lease.ts';
import { patiently } from '../postgres/patiently.ts';

export type ActionState =
  | 'proposed'
  | 'approved'
  | 'rejected'
  | 'expired'
  | 'in_flight'
  | 'committed'
  | 'aborted'
  | 'rolling_back'
  | 'rolled_back'
  | 'unknown'
  | 'needs_person';

/** An action as its executor needs it. */
export interface ActionRow {
  id: number;
  key: string;
  name: string;
  state: ActionState;
  why: string | null;
  arguments: unknown;
  onExpiry: 'reject' | 'fail';
  execution: number;
  undo: number;
  before: unknown;
  effect: unknown;
  /** What `execute` returned is on record; it may have returned nothing. */
  hasReturned: boolean;
  evidence: unknown;
  /** Another executor may still bring the effect. */
  executorAtWork: boolean;
  /** Since when nothing of it is sent any more; in the future while its executor may be at work. Null: it was never executed. */
  executorGoneAt: Date | null;
  /** The database's time of this look. */
  now: Date;
}

const COLUMNS = `a.id, a.key, a.name, a.state, a.why, a.arguments, a.on_expiry AS "onExpiry", a.execution, a.undo, a.before, a.effect,
  a.effect IS NOT NULL AS "hasReturned", a.evidence, madrugada.executor_at_work(a) AS "executorAtWork",
  madrugada.executor_gone_at(a) AS "executorGoneAt", madrugada.now() AS now`;

/** Proposes an action, or finds what the task has proposed before. Undefined: the lease is lost, or work is stopped. */
export async function proposeAction(
  pool: Pool,
  lease: Lease,
  ordinal: number,
  proposal: unknown,
): Promise<ActionRow | undefined> {
  return first<ActionRow>(pool, `SELECT ${COLUMNS} FROM madrugada.propose_action($1, $2, $3, $4, $5) a`, [
    ...[lease.taskId, lease.workerId, lease.token],
    ordinal,
    JSON.stringify(proposal),
  ]);
}

/**
 * The next action of a failing task that is in effect, or may be: first what is half done, then the last that was committed, by index
 * action_executed_for. Undefined: none is left.
 */
export async function nextToUndo(pool: Pool, taskId: number): Promise<ActionRow | undefined> {
  return first<ActionRow>(
    pool,
    `SELECT ${COLUMNS} FROM madrugada.action a
      WHERE a.executed_for = $1 AND a.state IN ('in_flight', 'rolling_back', 'committed')
      ORDER BY a.state = 'committed', a.committed_no DESC NULLS FIRST LIMIT 1`,
    [taskId],
  );
}

/** What a failing task could not undo, and a person must look at, in words. */
export async function leftToPerson(pool: Pool, taskId: number): Promise<string[]> {
  const { rows } = await patiently(() =>
    pool.query<{ words: string }>(
      `SELECT format('action %s (%s)', a.id, a.name) AS words FROM madrugada.action a
        WHERE a.executed_for = $1 AND a.state IN ('unknown', 'needs_person') ORDER BY a.id`,
      [taskId],
    ),
  );
  return rows.map(({ words }) => words);
}

export async function readAction(pool: Pool, id: number): Promise<ActionRow> {
  const row = await first<ActionRow>(pool, `SELECT ${COLUMNS} FROM madrugada.action a WHERE a.id = $1`, [id]);
  if (row === undefined) throw new Error(`action ${id} is not in the database`);
  return row;
}

/** Why not; null: go on. What was not seen to commit is repeated, and counts once. */
export async function beginExecution(
  pool: Pool,
  lease: Lease,
  { id, execution }: ActionRow,
  before: unknown,
  withinMs: number,
): Promise<string | null> {
  return value(pool, 'SELECT madrugada.begin_execution($1, $2, $3, $4, $5, $6, $7) AS value', [
    ...[id, lease.taskId, lease.workerId, lease.token, execution],
    JSON.stringify(before ?? null),
    withinMs,
  ]);
}

/** What the execution returned; JSON `null` where it returned nothing. */
export async function recordEffect(pool: Pool, lease: Lease, row: ActionRow, effect: unknown): Promise<void> {
  await value(pool, 'SELECT madrugada.record_effect($1, $2, $3, $4) AS value', [
    ...[row.id, lease.workerId, row.execution],
    JSON.stringify(effect ?? null),
  ]);
}

export async function giveUpExecution(pool: Pool, lease: Lease, { id }: ActionRow): Promise<void> {
  await value(pool, 'SELECT madrugada.give_up_execution($1, $2) AS value', [id, lease.workerId]);
}

/** Why not; null: go on. `seen`: what was read back, which the undo must find again. */
export async function beginUndo(
  pool: Pool,
  lease: Lease,
  { id, execution, undo }: ActionRow,
  seen: unknown,
  withinMs: number,
  why: string,
): Promise<string | null> {
  return value(pool, 'SELECT madrugada.begin_undo($1, $2, $3, $4, $5, $6, $7, $8, $9) AS value', [
    ...[id, lease.taskId, lease.workerId, lease.token, execution, undo],
    seen === undefined ? null : JSON.stringify(seen),
    withinMs,
    why,
  ]);
}

/** How an execution or an undo ended. */
export interface Conclusion {
  state: 'committed' | 'aborted' | 'rolled_back' | 'unknown' | 'needs_person';
  evidence: unknown;
  isWeak: boolean;
  why: string | undefined;
}

/** False: the lease is lost, or somebody else executes it now. */
export async function conclude(
  pool: Pool,
  lease: Lease,
  { id, execution, undo }: ActionRow,
  end: Conclusion,
): Promise<boolean> {
  return value(pool, 'SELECT madrugada.conclude_action($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS value', [
    ...[id, lease.taskId, lease.workerId, lease.token, execution, undo],
    end.state,
    end.evidence === undefined ? null : JSON.stringify(end.evidence),
    end.isWeak,
    end.why ?? null,
  ]);
}

/** Its precondition does not hold any more: it will have no effect. */
export async function abortAction(pool: Pool, lease: Lease, { id }: ActionRow, why: string): Promise<boolean> {
  return value(pool, 'SELECT madrugada.abort_action($1, $2, $3, $4, $5) AS value', [
    ...[id, lease.taskId, lease.workerId, lease.token],
    why,
  ]);
}

async function value<T>(pool: Pool, sql: string, values: unknown[]): Promise<T> {
  return (await first<{ value: T }>(pool, sql, values))?.value as T;
}

/** The database being away is waited out: an effect may be standing that nobody has on record. */
async function first<T extends object>(pool: Pool, sql: string, values: unknown[]): Promise<T | undefined> {
  const { rows } = await patiently(() => pool.query<T>(sql, values));
  return rows[0];
}

/** An error's words for a person, short, and without NUL characters, which Postgres cannot keep. */
export function wordsOf(error: unknown): string {
  return messageOf(error).replaceAll('\0', '').slice(0, 1000);
}

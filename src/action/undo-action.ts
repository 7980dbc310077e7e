import { createHash } from 'node:crypto';
import { failpoint } from '../failpoint.ts';
import { type ActionRow, beginUndo, giveUpExecution, readAction, wordsOf } from './action-row.ts';
import { type ActionEnvironment, concludeAction, heed, later } from './attempt-over.ts';
import { contextOf, withinMs } from './context.ts';
import { type AnyAction, isUndoRefused, type ReadBack } from './define-action.ts';

/**
 * Takes an effect back that is wrong, or that a failed task must not leave behind. The undo is on record before it begins (A8); a failing one
 * is tried again, and after the fifth time left to a person, as is one whose target has changed since, and what no program can take back.
 */
export async function undoAction(
  env: ActionEnvironment,
  definition: AnyAction,
  row: ActionRow,
  found: ReadBack,
  why: string,
): Promise<void> {
  const { rollback } = definition;
  if (rollback.kind === 'none' || rollback.kind === 'out-of-band') {
    const whatNext = rollback.kind === 'none' ? `it cannot be undone: ${rollback.cannot}` : rollback.plan;
    return needsPerson(env, row, found.evidence, `${why}; ${whatNext}`);
  }
  await undo(env, definition, row, found.evidence, why);
}

/** After a crash: what is already undone is not undone again. What the undo must find is what was seen before it began. */
export async function resumeUndo(env: ActionEnvironment, definition: AnyAction, row: ActionRow): Promise<void> {
  const why = row.why ?? 'its undo was interrupted';
  try {
    if (await isUndone(env, definition, row, why)) return;
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return tryInVain(env, definition, row, why, error.message);
  }
  await undo(env, definition, row, row.evidence ?? undefined, why);
}

/** A try that cannot even begin, because the target cannot be read, counts like one that fails: after the fifth, a person is asked. */
export async function tryInVain(
  env: ActionEnvironment,
  definition: AnyAction,
  row: ActionRow,
  why: string,
  problem: string,
): Promise<void> {
  const refusal = await beginUndo(env.pool, env.lease, row, undefined, withinMs(definition), why);
  if (refusal !== null) return heed(env, row, refusal);
  await giveUpExecution(env.pool, env.lease, row);
  throw later(row, problem);
}

async function undo(
  env: ActionEnvironment,
  definition: AnyAction,
  row: ActionRow,
  seen: unknown,
  why: string,
): Promise<void> {
  env.onActivity();
  const { rollback } = definition;
  if (rollback.kind !== 'in-band' && rollback.kind !== 'compensating')
    return needsPerson(env, row, seen, `${why}; it has no undo any more`);
  const refusal = await beginUndo(env.pool, env.lease, row, seen, withinMs(definition), why);
  if (refusal !== null) return heed(env, row, refusal);
  await failpoint('action.undo.begin.after', row.name);
  const begun = await readAction(env.pool, row.id);
  const context = contextOf(definition, keyOf(definition, row.key));
  const problem = await (async () => rollback.undo(undoOf(begun, seen), context))()
    .then(() => undefined)
    .catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
  await failpoint('action.undo.after', row.name);
  if (isUndoRefused(problem))
    return needsPerson(env, begun, undefined, `${why}; it is not taken back: ${wordsOf(problem)}`);
  const said = problem ? `its undo failed: ${wordsOf(problem)}` : 'its undo is not to be seen at the target';
  try {
    if (await isUndone(env, definition, begun, why)) return;
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    await giveUpExecution(env.pool, env.lease, begun);
    throw later(begun, problem ? `${said}; ${error.message}` : error.message);
  }
  await giveUpExecution(env.pool, env.lease, begun);
  throw later(begun, said);
}

/** The target cannot be asked now whether an undo is done. */
class Unreadable extends Error {}

/**
 * Reads back whether the undo is done, and if so concludes. In-band, the target is as it was; else the compensation is there. Throws
 * `Unreadable`.
 */
async function isUndone(env: ActionEnvironment, definition: AnyAction, row: ActionRow, why: string): Promise<boolean> {
  const { rollback } = definition;
  const look = async (): Promise<{ found: ReadBack; isDone: boolean }> => {
    const context = contextOf(definition, keyOf(definition, row.key));
    if (rollback.kind === 'compensating') {
      const found = await rollback.readBack(undoOf(row, row.evidence), context);
      return { found, isDone: found.found === 'effect' };
    }
    const effect = row.hasReturned ? row.effect : undefined;
    const found = await definition.verify(row.arguments, row.before, effect, { ...context, key: row.key });
    return { found, isDone: found.found === 'nothing' };
  };
  const { found, isDone } = await look().catch((error: unknown) => {
    throw new Unreadable(`its undo cannot be read back: ${wordsOf(error)}`);
  });
  await failpoint('action.undo.verify.after', row.name);
  if (found.found === 'unknown')
    await concludeAction(env, row, {
      state: 'unknown',
      evidence: found.evidence,
      isWeak: false,
      why: `${why}; it cannot be told whether it was taken back`,
    });
  else if (isDone) {
    const isWeak = found.found === 'effect' && found.strength === 'weak';
    await concludeAction(env, row, { state: 'rolled_back', evidence: found.evidence, isWeak, why });
  }
  return isDone || found.found === 'unknown';
}

function undoOf(row: ActionRow, seen: unknown) {
  return { args: row.arguments, before: row.before, effect: row.hasReturned ? row.effect : undefined, seen };
}

/** A compensation is an effect of its own, so it has a key of its own. */
function keyOf(definition: AnyAction, key: string): string {
  return definition.rollback.kind === 'compensating' ? createHash('sha256').update(`${key}/undo`).digest('hex') : key;
}

async function needsPerson(env: ActionEnvironment, row: ActionRow, evidence: unknown, why: string): Promise<void> {
  await concludeAction(env, row, { state: 'needs_person', evidence, isWeak: false, why });
}

import { failpoint } from '../failpoint.ts';
import { type ActionRow, beginUndo, leftToPerson, nextToUndo, readAction, wordsOf } from './action-row.ts';
import { type ActionEnvironment, concludeAction, heed } from './attempt-over.ts';
import { contextOf, withinMs } from './context.ts';
import type { AnyAction } from './define-action.ts';
import { recoverAction } from './recover-action.ts';
import { tryInVain, undoAction } from './undo-action.ts';

/**
 * Undoes what a task that has failed has committed, the last first, each on record before it begins (A8): a crash half-way leaves the rest to
 * the next attempt. One that cannot be undone is left to a person, and does not keep the earlier ones: each is taken back only while the target is
 * as it left it. `why` is the task's failure. Returns, in words, what is left to a person. Throws AttemptOver when something must be waited for.
 */
export async function undoSaga(env: ActionEnvironment, actions: readonly AnyAction[], why: string): Promise<string[]> {
  for (;;) {
    env.onActivity();
    const row = await nextToUndo(env.pool, env.lease.taskId);
    if (row === undefined) return leftToPerson(env.pool, env.lease.taskId);
    await failpoint('action.saga.next', row.name);
    const definition = actions.find((action) => action.name === row.name);
    if (definition === undefined)
      await leaveToPerson(env, row, `the agent has no action "${row.name}" any more; ${why}`);
    else if (row.state === 'committed') await undoCommitted(env, definition, row, `its task has failed: ${why}`);
    else await recoverAction(env, definition, row);
  }
}

/** Only what is still as the action left it is taken back (rule R16); that is read first. */
async function undoCommitted(
  env: ActionEnvironment,
  definition: AnyAction,
  row: ActionRow,
  why: string,
): Promise<void> {
  const { rollback } = definition;
  const effect = row.hasReturned ? row.effect : undefined;
  const found = await (async () =>
    definition.verify(row.arguments, row.before, effect, contextOf(definition, row.key)))().catch(
    (error: unknown) => new Error(`it cannot be read before it is undone: ${wordsOf(error)}`),
  );
  if (found instanceof Error) return tryInVain(env, definition, row, why, found.message);
  if (found.found === 'effect') return undoAction(env, definition, row, found, why);
  if (found.found === 'nothing' && rollback.kind === 'in-band') {
    // somebody has taken it back already: nothing is left to do, and that is on record
    const refusal = await beginUndo(env.pool, env.lease, row, found.evidence, withinMs(definition), why);
    if (refusal !== null) heed(env, row, refusal);
    else
      await concludeAction(env, await readAction(env.pool, row.id), {
        state: 'rolled_back',
        evidence: found.evidence,
        isWeak: false,
        why: `${why}; nothing of it was left`,
      });
    return;
  }
  if (found.found === 'unknown' && rollback.kind === 'compensating')
    return undoAction(env, definition, row, found, why);
  await leaveToPerson(env, row, `${why}; the target is not as the action left it any more (${found.found})`);
}

async function leaveToPerson(env: ActionEnvironment, row: ActionRow, why: string): Promise<void> {
  await concludeAction(env, row, { state: 'needs_person', evidence: undefined, isWeak: false, why });
}

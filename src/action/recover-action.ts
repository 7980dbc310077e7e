import type { ActionRow } from './action-row.ts';
import { type ActionEnvironment, later } from './attempt-over.ts';
import type { AnyAction } from './define-action.ts';
import { takeEffect } from './execute-action.ts';
import { settleExecution } from './settle-execution.ts';
import { resumeUndo } from './undo-action.ts';

/**
 * Goes on from where an executor died, or gave up: reads back first, and executes only if the effect is absent (A5). While the executor may
 * still be at work, the task waits; the news of its death wakes it.
 */
export async function recoverAction(env: ActionEnvironment, definition: AnyAction, row: ActionRow): Promise<void> {
  if (row.executorAtWork)
    throw later(row, 'another executor may still be at work on it', row.executorGoneAt ?? undefined);
  if (row.state === 'rolling_back') await resumeUndo(env, definition, row);
  else if ((await settleExecution(env, definition, row, undefined)) === 'to be executed again')
    await takeEffect(env, definition, row, row.before);
}

import { failpoint } from '../failpoint.ts';
import { type ActionRow, giveUpExecution, wordsOf } from './action-row.ts';
import { type ActionEnvironment, concludeAction, later } from './attempt-over.ts';
import { contextOf } from './context.ts';
import type { AnyAction, ReadBack } from './define-action.ts';
import { undoAction } from './undo-action.ts';

/** How often the effect is attempted that reading back does not find. */
const MAX_EXECUTIONS = 3;
/** How long a target may be out of reach before a person is asked what became of the effect. */
const MAX_SILENCE_MS = 10 * 60_000;

/**
 * Reads the target back and draws the conclusion: the effect is there, and the action committed; it is not, and may be attempted again; it is
 * not what was intended, and is taken back; or it cannot be told, and a person is asked. `failure` is what `execute` threw.
 */
export async function settleExecution(
  env: ActionEnvironment,
  definition: AnyAction,
  row: ActionRow,
  failure: string | undefined,
): Promise<'settled' | 'to be executed again'> {
  env.onActivity();
  const found = await readBack(env, definition, row);
  await failpoint('action.verify.after', row.name);
  const said = failure === undefined ? '' : `; the execution had failed: ${failure}`;
  const end = (state: 'committed' | 'aborted' | 'unknown', why: string | undefined) => {
    const isWeak = found.found === 'effect' && found.strength === 'weak';
    return concludeAction(env, row, { state, evidence: found.evidence, isWeak, why });
  };
  switch (found.found) {
    case 'effect':
      await end('committed', undefined);
      return 'settled';
    case 'something else':
      await undoAction(env, definition, row, found, `reading back found something else than intended${said}`);
      return 'settled';
    case 'unknown':
      await end('unknown', `it cannot be told whether it took effect${said}`);
      return 'settled';
    case 'nothing':
      return whenAbsent(env, definition, row, said, end);
  }
}

/** Absent is believed when the target itself refuses a second effect, or nothing that was sent can be on its way any more (rule R16). */
async function whenAbsent(
  env: ActionEnvironment,
  definition: AnyAction,
  row: ActionRow,
  said: string,
  end: (state: 'aborted', why: string) => Promise<void>,
): Promise<'settled' | 'to be executed again'> {
  await giveUpExecution(env.pool, env.lease, row); // from now on nothing of it is sent
  if (!definition.enforcesKey) {
    const goneAt = row.executorGoneAt ?? row.now;
    const settledAt = new Date(goneAt.getTime() + (definition.settleMs ?? 0));
    if (settledAt > row.now)
      throw later(row, `its effect is not there, and may still appear until ${settledAt.toISOString()}`, settledAt);
  }
  if (!row.hasReturned && row.execution < MAX_EXECUTIONS) return 'to be executed again';
  const what = row.hasReturned
    ? 'it was executed, and reading back finds nothing of it'
    : `it took no effect in ${row.execution} executions`;
  await end('aborted', `${what}${said}`);
  return 'settled';
}

/** A target that cannot be read is asked again for some minutes before it counts as unknown. */
async function readBack(env: ActionEnvironment, definition: AnyAction, row: ActionRow): Promise<ReadBack> {
  try {
    const effect = row.hasReturned ? row.effect : undefined;
    return await definition.verify(row.arguments, row.before, effect, contextOf(definition, row.key));
  } catch (error) {
    const words = wordsOf(error);
    await giveUpExecution(env.pool, env.lease, row);
    const silentSince = row.executorGoneAt ?? row.now;
    if (row.now.getTime() - silentSince.getTime() < MAX_SILENCE_MS)
      throw later(row, `the target cannot be read back: ${words}`);
    return { found: 'unknown', evidence: { error: words } };
  }
}

import { failpoint } from '../failpoint.ts';
import { type ActionRow, abortAction, beginExecution, giveUpExecution, recordEffect, wordsOf } from './action-row.ts';
import { type ActionEnvironment, concludeAction, heed, later } from './attempt-over.ts';
import { contextOf, withinMs } from './context.ts';
import { deadlineSignal } from './deadline.ts';
import { type AnyAction, isNoEffect, NoEffect } from './define-action.ts';
import { settleExecution } from './settle-execution.ts';

/**
 * Takes an approved action from its precondition, checked again now (A4), to its read-back: "in flight" is committed under the lease before
 * the effect (A5), what it returned before the reading back (A6). A crash anywhere leaves what `recoverAction` goes on from.
 */
export async function executeAction(env: ActionEnvironment, definition: AnyAction, row: ActionRow): Promise<void> {
  const context = contextOf(definition, row.key);
  const precondition = await (async () => definition.precondition(row.arguments, context))().catch((error: unknown) => {
    throw later(row, `its precondition cannot be checked: ${wordsOf(error)}`);
  });
  await failpoint('action.precondition.after', row.name);
  if (!precondition.holds) {
    await abortAction(env.pool, env.lease, row, `its precondition does not hold: ${precondition.why}`);
    return;
  }
  await takeEffect(env, definition, row, precondition.before);
}

/** From "in flight" on. Also for one whose effect was found to be absent after a crash: then `before` is what was kept the first time. */
export async function takeEffect(
  env: ActionEnvironment,
  definition: AnyAction,
  row: ActionRow,
  before: unknown,
): Promise<void> {
  const ms = withinMs(definition);
  const startedAt = performance.now(); // before "in flight" is on record, so that the deadline kept there is the later one
  const refusal = await beginExecution(env.pool, env.lease, row, before, ms);
  if (refusal !== null) return heed(env, row, refusal);
  const begun = { ...row, execution: row.execution + 1, before, effect: undefined, hasReturned: false };
  await failpoint('action.begin.after', row.name);
  const leftMs = Math.floor(ms - (performance.now() - startedAt));
  let effect: unknown;
  try {
    if (leftMs <= 0) throw new NoEffect('its deadline had passed before it was sent');
    effect = await definition.execute(row.arguments, before, { key: row.key, signal: deadlineSignal(leftMs) });
    await failpoint('action.execute.after', row.name);
    await recordEffect(env.pool, env.lease, begun, effect);
    await failpoint('action.record.after', row.name);
  } catch (error) {
    if (isNoEffect(error)) {
      const why = `nothing was done: ${wordsOf(error)}`;
      await concludeAction(env, begun, { state: 'aborted', evidence: undefined, isWeak: false, why });
      return;
    }
    await giveUpExecution(env.pool, env.lease, begun); // whether it had an effect, reading back will tell
    await settleExecution(env, definition, begun, wordsOf(error));
    return;
  }
  await settleExecution(env, definition, { ...begun, effect: effect ?? null, hasReturned: true }, undefined);
}

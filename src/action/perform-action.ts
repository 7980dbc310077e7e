import { DatabaseError } from 'pg';
import { failpoint } from '../failpoint.ts';
import { type ActionRow, proposeAction, wordsOf } from './action-row.ts';
import { type ActionEnvironment, AttemptOver, untilDecided } from './attempt-over.ts';
import type { ActionOutcome, AnyAction } from './define-action.ts';
import { executeAction } from './execute-action.ts';
import { recoverAction } from './recover-action.ts';

/**
 * Proposes an action and takes it as far as it will go now: to an outcome, or to `AttemptOver` when a person or time must act first. Whatever
 * happened in between, it begins with what the database has on record.
 */
export async function performAction(
  env: ActionEnvironment,
  definition: AnyAction,
  ordinal: number,
  proposal: unknown,
): Promise<ActionOutcome> {
  for (;;) {
    env.onActivity();
    await failpoint('action.propose.before', definition.name);
    const row = await propose(env, ordinal, proposal);
    await failpoint('action.propose.after', definition.name);
    if (row === undefined)
      throw new AttemptOver({
        kind: 'lost',
        message: `task ${env.lease.key}: the lease is no longer held, or work is stopped`,
      });
    const outcome = await advance(env, definition, row);
    if (outcome) return outcome;
  }
}

/** Bad data, a broken constraint, a rule of ours: what the database refuses for what the proposal says, it would refuse again. */
const REFUSED = /^(22|23|MD)/;

/** Such a refusal fails the task, which says why; any other error of the database, such as a deadlock, is for the next attempt. */
async function propose(env: ActionEnvironment, ordinal: number, proposal: unknown): Promise<ActionRow | undefined> {
  try {
    return await proposeAction(env.pool, env.lease, ordinal, proposal);
  } catch (error) {
    if (!(error instanceof DatabaseError && REFUSED.test(error.code ?? ''))) throw error;
    const why = [wordsOf(error), error.hint].filter(Boolean).join('; ');
    throw new AttemptOver({ kind: 'refused', message: `task ${env.lease.key}: its action is refused: ${why}` });
  }
}

/** One step of its life; undefined: look again. */
async function advance(
  env: ActionEnvironment,
  definition: AnyAction,
  row: ActionRow,
): Promise<ActionOutcome | undefined> {
  switch (row.state) {
    case 'approved':
      await executeAction(env, definition, row);
      return undefined;
    case 'in_flight':
    case 'rolling_back':
      await recoverAction(env, definition, row);
      return undefined;
    case 'proposed':
      throw untilDecided(row, 'waits for approval');
    case 'unknown':
    case 'needs_person':
      throw untilDecided(row, `needs a person: ${row.why ?? ''}`);
    case 'expired':
      if (row.onExpiry === 'fail')
        throw new AttemptOver({ kind: 'refused', message: `action ${row.id} (${row.name}) has expired: ${row.why}` });
      return outcomeOf(row, 'expired');
    default:
      return outcomeOf(row, row.state);
  }
}

function outcomeOf({ id, why }: ActionRow, state: ActionOutcome['state']): ActionOutcome {
  return { id, state, why: state === 'committed' ? undefined : (why ?? undefined) };
}

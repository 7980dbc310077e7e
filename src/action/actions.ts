import { createHash } from 'node:crypto';
import type { Pool } from 'pg';
import { canonicalJson } from '../journal/canonical-json.ts';
import type { Session } from '../journal/session.ts';
import { wordsOf } from './action-row.ts';
import { AttemptOver } from './attempt-over.ts';
import type { ActionDefinition, ActionOutcome, AnyAction } from './define-action.ts';
import { performAction } from './perform-action.ts';

/** The actions of one run of an agent on a task: `task.action`. */
export class Actions {
  readonly #pool: Pool;
  readonly #session: Session;
  readonly #listed: readonly AnyAction[];
  readonly #onActivity: () => void;
  readonly #ordinals = new Map<string, number>();
  readonly #latest = new Map<string, Promise<unknown>>();

  constructor(pool: Pool, session: Session, listed: readonly AnyAction[], onActivity: () => void) {
    this.#pool = pool;
    this.#session = session;
    this.#listed = listed;
    this.#onActivity = onActivity;
  }

  /** See `Task.action`. Rejects when the arguments do not fit, or the agent does not list the action. */
  async run<Args, Before, Effect>(
    definition: ActionDefinition<Args, Before, Effect>,
    given: Args,
  ): Promise<ActionOutcome> {
    if (!this.#listed.includes(definition))
      throw new Error(`action "${definition.name}" is not among the agent's actions: list it in defineAgent`);
    const checked = definition.arguments['~standard'].validate(given);
    if (checked instanceof Promise) throw new Error(`action "${definition.name}": its schema must check at once`);
    if (checked.issues)
      throw new Error(
        `action "${definition.name}": its arguments do not fit: ${checked.issues.map(({ message }) => message).join('; ')}`,
      );
    const args = JSON.parse(JSON.stringify(checked.value)) as Args; // as the database keeps them, and every later execution gets them
    const step = `${definition.name} ${createHash('sha256')
      .update(canonicalJson(JSON.stringify(args)))
      .digest('hex')}`;
    const ordinal = (this.#ordinals.get(step) ?? 0) + 1;
    this.#ordinals.set(step, ordinal);
    return this.#session.action(step, () =>
      this.#afterOthers(step, () => this.#perform(definition, args, step, ordinal)),
    );
  }

  /** The same arguments twice at the same time are the same action, which only one may execute. */
  async #afterOthers<T>(step: string, perform: () => Promise<T | undefined>): Promise<T | undefined> {
    const before = this.#latest.get(step);
    const mine = (async () => {
      await before?.catch(() => undefined);
      return this.#session.over.aborted ? undefined : perform();
    })();
    this.#latest.set(step, mine);
    return mine;
  }

  /** Undefined: the session is over. */
  async #perform<Args, Before, Effect>(
    definition: ActionDefinition<Args, Before, Effect>,
    args: Args,
    step: string,
    ordinal: number,
  ): Promise<ActionOutcome | undefined> {
    const env = { pool: this.#pool, lease: this.#session.lease, onActivity: this.#onActivity };
    try {
      const proposal = { ...(await describe(definition, args)), step, lineage: this.#session.answeredCalls };
      return await performAction(env, definition, ordinal, {
        ...proposal,
        proposed_by: `agent in slot ${env.lease.slot}`,
      });
    } catch (error) {
      if (!(error instanceof AttemptOver)) throw error;
      this.#session.end(error.verdict);
      return undefined;
    }
  }
}

/** All that people decide on. What the target shows now is for them to compare; that it cannot be read is no reason not to ask them. */
async function describe<Args, Before, Effect>(definition: ActionDefinition<Args, Before, Effect>, args: Args) {
  const {
    name,
    kind,
    intent,
    permissions,
    blastRadius,
    rollback,
    approval,
    expiresIn,
    onExpiry = 'reject',
  } = definition;
  const present = await (async () => definition.present?.(args))().catch((error: unknown) => ({
    unreadable: wordsOf(error),
  }));
  return {
    ...{ name, kind, arguments: args, permissions, approval, present: present ?? null },
    intent: typeof intent === 'function' ? intent(args) : intent,
    blast_radius: typeof blastRadius === 'function' ? blastRadius(args) : blastRadius,
    rollback_kind: rollback.kind,
    rollback_plan: rollback.kind === 'none' ? rollback.cannot : rollback.plan,
    expires_in_ms: expiresIn,
    on_expiry: onExpiry,
  };
}

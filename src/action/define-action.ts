import type { StandardSchemaV1 } from '@standard-schema/spec';

/** What every function of an action is told besides its arguments. */
export interface ActionContext {
  /** The idempotency key, 64 hexadecimal digits; pass it on to the target wherever that takes one. It is the same after every crash. */
  key: string;
  /** Aborts at the deadline of this execution, or of this look at the target. */
  signal: AbortSignal;
}

/** Whether an action may take effect now; `before` is what is needed to undo it, kept in the database before the effect: JSON, no secrets. */
export type Precondition<Before> = { holds: true; before: Before } | { holds: false; why: string };

/**
 * What reading the target back has found (A6). `effect`: exactly what was intended. `nothing`: the target is as it was before. `something
 * else`: neither. `unknown`: it cannot be told. `evidence` is JSON that an auditor can read; `weak` evidence is shown as such.
 */
export type ReadBack =
  | { found: 'effect'; evidence: unknown; strength: 'strong' | 'weak' }
  | { found: 'nothing' | 'something else' | 'unknown'; evidence: unknown };

/** What an undo works on: `seen` is the evidence of the read-back just before; the target must still be as it says, else `UndoRefused`. */
export interface Undo<Args, Before, Effect> {
  args: Args;
  before: Before;
  /** What `execute` returned; undefined when it was cut off before that was on record. */
  effect: Effect | undefined;
  seen: unknown;
}

/** Thrown by `execute` when it is certain that nothing has taken effect: the action is aborted, and may be proposed again. */
export class NoEffect extends Error {
  override name = 'NoEffect';
}

/** Thrown by an undo when the target is no longer as the action left it: a person decides (rule R16). */
export class UndoRefused extends Error {
  override name = 'UndoRefused';
}

/** True for `NoEffect` of any copy of this package: an agent may have been built with another than the one that runs it. */
export function isNoEffect(error: unknown): error is Error {
  return error instanceof Error && error.name === 'NoEffect';
}

/** True for `UndoRefused` of any copy of this package. */
export function isUndoRefused(error: unknown): error is Error {
  return error instanceof Error && error.name === 'UndoRefused';
}

/**
 * How an effect is taken back. `in-band`: the inverse operation; read back, the target must be as before. `compensating`: another effect that
 * neutralises the first, with its own key and its own read-back. `out-of-band`: a person does it, alerted, the state kept. `none`: it cannot be
 * undone; `cannot` says what cannot, and the approver types a challenge.
 */
export type Rollback<Args, Before, Effect> =
  | {
      kind: 'in-band';
      plan: string;
      undo(undo: Undo<Args, Before, Effect>, context: ActionContext): Promise<void>;
    }
  | {
      kind: 'compensating';
      plan: string;
      undo(undo: Undo<Args, Before, Effect>, context: ActionContext): Promise<void>;
      /** Is the compensation there? `effect`: yes. The context's key is the compensation's own. */
      readBack(undo: Undo<Args, Before, Effect>, context: ActionContext): Promise<ReadBack>;
    }
  | { kind: 'out-of-band'; plan: string }
  | { kind: 'none'; plan?: undefined; cannot: string };

/** Who must agree. `challenge`: a person who types a phrase made of the action's digest and of what cannot be undone. */
export type Approval = 'none' | 'person' | 'two-people' | 'challenge';

/** How one kind of target is changed, read back and changed back. */
export interface ActionKind<Args, Before = unknown, Effect = unknown> {
  /** `postgres`, `file`, `http`, `email`, or the name of your own. */
  kind: string;
  /** What the target shows now, for the approver to compare the arguments with: JSON. Undefined: nothing can be shown. */
  present?(args: Args): Promise<unknown>;
  /** Checked when the action is approved and again when it is executed (A4). */
  precondition(args: Args, context: ActionContext): Promise<Precondition<Before>>;
  /**
   * Makes the effect; returns JSON that helps to verify and undo it. Throws `NoEffect` when certainly nothing has happened; any other error
   * leaves the effect in question, to be settled by reading back.
   */
  execute(args: Args, before: Before, context: ActionContext): Promise<Effect>;
  /** Reads the target back (A6); after a crash without knowing what `execute` returned. Must not change anything. */
  verify(args: Args, before: Before, effect: Effect | undefined, context: ActionContext): Promise<ReadBack>;
  rollback: Rollback<Args, Before, Effect>;
  /** The target itself refuses a second effect with the same key; then "nothing found" may be believed at once. */
  enforcesKey: boolean;
  /** Milliseconds after an executor's deadline within which its effect may still appear at the target; counts where `enforcesKey` is false. */
  settleMs?: number;
}

/** An action as an agent declares it: the kind of effect, and what people need in order to decide. */
export interface ActionDefinition<Args = unknown, Before = unknown, Effect = unknown>
  extends ActionKind<Args, Before, Effect> {
  /** Part of the idempotency key: letters, digits, `.`, `_`, `-`. */
  name: string;
  arguments: StandardSchemaV1<unknown, Args>;
  /** What it is for, in one sentence for the approver. */
  intent: string | ((args: Args) => string);
  /** What it uses, such as `UPDATE on bank.account`. At least one. */
  permissions: string[];
  /** What it can touch at most, for the approver. */
  blastRadius: string | ((args: Args) => string);
  approval: Approval;
  /** Milliseconds from the proposal until it expires, approved or not. */
  expiresIn: number;
  /** What the task gets when it expires: the outcome `expired` (`reject`, the default), or its failure (`fail`). It never goes on. */
  onExpiry?: 'reject' | 'fail';
  /** Milliseconds that one execution may take, from its record to its last byte; 60,000 by default. */
  executeWithin?: number;
}

/** An action of any arguments: what an agent lists as its actions. */
// biome-ignore lint/suspicious/noExplicitAny: its functions take their own types only, which no wider type can say
export type AnyAction = ActionDefinition<any, any, any>;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/**
 * Declares an action; list it in the agent's `actions`, and run it by `task.action(it, args)`. Throws where the declaration leaves something
 * out that the approver or the undoing needs: such an action could not be proposed.
 */
export function defineAction<Args, Before, Effect>(
  definition: ActionDefinition<Args, Before, Effect>,
): ActionDefinition<Args, Before, Effect> {
  const { name, permissions, rollback, approval, expiresIn } = definition;
  const problems = [
    !NAME.test(name) && 'its name takes letters, digits, ".", "_" and "-" only',
    permissions.length === 0 && 'permissions: name at least one',
    definition.intent === '' && 'intent: say what it is for',
    definition.blastRadius === '' && 'blastRadius: say what it can touch at most',
    !(expiresIn > 0) && 'expiresIn: a number of milliseconds above 0',
    (rollback.kind === 'none' ? rollback.cannot : rollback.plan).trim() === '' &&
      'rollback: say how it is taken back, or what cannot be',
    rollback.kind === 'none' && approval !== 'challenge' && 'what cannot be rolled back needs approval "challenge"',
  ].filter((problem) => problem !== false);
  if (problems.length > 0) throw new Error(`action "${name}": ${problems.join('; ')}`);
  return definition;
}

/** What became of an action, for the agent's code. Only `committed` means that its effect is in place, read back. */
export interface ActionOutcome {
  /** The number by which `madrugada action show` finds it. */
  id: number;
  state: 'committed' | 'rejected' | 'expired' | 'aborted' | 'rolled_back';
  /** Why, of every state but `committed`. */
  why: string | undefined;
}

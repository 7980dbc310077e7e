import Anthropic from '@anthropic-ai/sdk';
import type { Actions } from '../action/actions.ts';
import type { ActionDefinition, ActionOutcome } from '../action/define-action.ts';
import type { Session } from '../journal/session.ts';
import { elapse } from '../journal/steps.ts';
import type { ClaimedTask } from '../lease/claim.ts';

/** What an agent's `run` gets: its question, and ways to the outside that survive a crash. */
export interface Task<Input = unknown, Options = Record<string, unknown>> {
  /** `batch:item:version` */
  readonly key: string;
  readonly item: string;
  readonly input: Input;
  /** Options of the batch (`--option k=v`), as the agent's schema has read them. */
  readonly options: Readonly<Options>;
  /** When the task was first claimed: the same in every attempt. */
  readonly startedAt: Date;
  /** An Anthropic client on the journal. */
  readonly anthropic: Anthropic;
  /** The journaled fetch, for every SDK that accepts one. */
  readonly fetch: typeof fetch;
  /** A name space of its own for calls and steps: branches that run at the same time do not count each other's repetitions. */
  scope<T>(name: string, fn: (task: Task<Input, Options>) => T | Promise<T>): Promise<T>;
  /** Runs `fn` once in the life of the task and journals its result, which must survive JSON. No calls or steps inside: they have records of their own. */
  step<T>(name: string, fn: () => T | Promise<T>): Promise<T>;
  /** The time; the same on replay. */
  now(): Date;
  /** A random number in [0, 1); the same on replay. */
  random(): number;
  /** Waits `ms` milliseconds, once. */
  sleep(ms: number): Promise<void>;
  /** Rejects after `ms` milliseconds: to be raced against a call. */
  timeout(ms: number): Promise<never>;
  /**
   * Changes something outside, once: proposes the action, waits for the people who must agree (without slot or lease), executes it, and reads
   * it back. Rejects only for wrong arguments; everything else is in the outcome. Proposing the same arguments again finds the same action.
   */
  action<Args, Before, Effect>(definition: ActionDefinition<Args, Before, Effect>, args: Args): Promise<ActionOutcome>;
  /** Records `state`, such as a digest, under a name; when the task is replayed in another state, it stops there as diverged. */
  checkpoint(name: string, state: string): void;
  /** Aborts when this run is over, however it ended: let go of what it holds. Calls need not be aborted. */
  readonly signal: AbortSignal;
}

/** Where the agent's model calls go, and with which key. */
export interface ProviderAccess {
  apiKey: string;
  baseUrl: string | undefined;
}

/** The SDK's own timer is out of the way: deadlines are the journal's. */
const NO_SDK_TIMEOUT_MS = 2_147_483_647;

/** Builds the task object of one run on one session. */
export function createTask<Input, Options>(
  session: Session,
  claimed: ClaimedTask,
  { input, options }: { input: Input; options: Options },
  access: ProviderAccess,
  actions: Actions,
  scope = '',
): Task<Input, Options> {
  const { steps } = session;
  const journaledFetch: typeof fetch = (request, init) => session.fetch(scope, request, init);
  let anthropic: Anthropic | undefined;
  return {
    key: claimed.key,
    item: claimed.item,
    input,
    options,
    startedAt: claimed.firstClaimedAt,
    get anthropic() {
      anthropic ??= new Anthropic({
        apiKey: access.apiKey,
        baseURL: access.baseUrl ?? null,
        fetch: journaledFetch,
        maxRetries: 0,
        timeout: NO_SDK_TIMEOUT_MS,
      });
      return anthropic;
    },
    fetch: journaledFetch,
    async scope(name, fn) {
      return fn(
        createTask(session, claimed, { input, options }, access, actions, scope === '' ? name : `${scope}/${name}`),
      );
    },
    step: (name, fn) => steps.run(scope, 'step', name, fn),
    now: () => new Date(steps.value(scope, 'now', '', () => new Date().toISOString())),
    random: () => steps.value(scope, 'random', '', Math.random),
    async sleep(ms) {
      await steps.run(scope, 'sleep', String(ms), () => elapse(ms));
    },
    async timeout(ms) {
      await steps.run(scope, 'timeout', String(ms), () => elapse(ms));
      throw new Error(`${ms} ms have passed`);
    },
    action: (definition, args) => actions.run(definition, args),
    checkpoint: (name, state) => steps.checkpoint(scope, name, state),
    signal: session.over,
  };
}

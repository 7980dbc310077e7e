import { deadlineSignal } from './deadline.ts';
import type { ActionContext, AnyAction } from './define-action.ts';

/** Milliseconds that an execution, or a look at the target, may take. */
const DEFAULT_WITHIN_MS = 60_000;

export function withinMs({ executeWithin }: AnyAction): number {
  return executeWithin ?? DEFAULT_WITHIN_MS;
}

/** What the action's functions are told; the signal's time begins now. */
export function contextOf(definition: AnyAction, key: string): ActionContext {
  return { key, signal: deadlineSignal(withinMs(definition)) };
}

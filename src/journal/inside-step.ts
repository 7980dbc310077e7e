import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * The step whose function is running. What is journaled inside of it would not be asked for again once the step itself is recorded, and its
 * task would stop as diverged; so it is refused the first time, when somebody is looking.
 */
const running = new AsyncLocalStorage<string>();

/** Runs a step's function so that `refusalInsideStep` knows about it, also after its awaits. */
export function insideStep<T>(name: string, fn: () => T): T {
  return running.run(name, fn);
}

/** Why nothing can be journaled here, or undefined where it can. */
export function refusalInsideStep(what: string): string | undefined {
  const name = running.getStore();
  return name === undefined
    ? undefined
    : `${what} inside of step ${name}: both are journaled by themselves, so move it out of the step`;
}

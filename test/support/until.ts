import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 20;
const LIMIT_MS = 40_000;

/** Waits until `condition` holds, and returns what it gave. Throws, naming `what`, when it does not come about in a very long time. */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  limitMs = LIMIT_MS,
): Promise<NonNullable<Exclude<T, false>>> {
  const start = performance.now();
  for (;;) {
    const found = await condition();
    if (found) return found as NonNullable<Exclude<T, false>>;
    if (performance.now() - start > limitMs) throw new Error(`waited in vain until ${what}`);
    await delay(POLL_MS);
  }
}

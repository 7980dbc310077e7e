import { setTimeout as delay } from 'node:timers/promises';
import { MadrugadaError } from '../errors.ts';

const POLL_MS = 20;
/** Far beyond what a busy machine needs: reached only when something is wrong. */
const LIMIT_MS = 240_000;

/** Looks until `look` finds something. Throws when it never does; `what` says what was waited for. */
export async function until<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
  const giveUpAt = performance.now() + LIMIT_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > giveUpAt)
      throw new MadrugadaError(`waited ${LIMIT_MS / 1000} s in vain for ${what}; the run's night.log may say why`, 1);
    await delay(POLL_MS);
  }
}

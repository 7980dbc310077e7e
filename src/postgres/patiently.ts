import { setTimeout as delay } from 'node:timers/promises';
import { isConnectionLoss } from './connection-loss.ts';

const WAITS_MS = [50, 100, 250, 500, 1000];

/**
 * Runs a statement that may be repeated, until the database answers it: a restart in mid-night is waited out, not an error. Gives up, with
 * the error, once `signal` aborts.
 */
export async function patiently<T>(run: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      if (!isConnectionLoss(error) || signal?.aborted) throw error;
      await delay(WAITS_MS[Math.min(attempt, WAITS_MS.length - 1)]);
    }
  }
}

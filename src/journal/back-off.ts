import type { Limits } from './environment.ts';
import type { Ending } from './outcome.ts';

/** First back-off after a refusal; doubled each time, up to the longest. */
const BACKOFF_MS = 500;
const LONGEST_BACKOFF_MS = 30_000;
/** What the provider asks to wait is lengthened by up to this share: it has told all workers the same moment. */
const SPREAD = 0.25;

/**
 * How long a call waits before it is sent again, in milliseconds; undefined where it is not: no repetition would help, or its dispatches or
 * its time are used up. `tries` counts the dispatches made; `spentMs` is the time since the first. The provider's word counts, up to a cap;
 * without it the wait is an exponential back-off with full jitter.
 */
export function waitAfter(
  ending: Ending,
  tries: number,
  spentMs: number,
  limits: Limits,
  random = Math.random,
): number | undefined {
  if (!mayBeRepeated(ending) || tries >= limits.maxDispatches) return undefined;
  const askedMs = ending.kind === 'refused' ? ending.retryAfterMs : undefined;
  const waitMs =
    askedMs === undefined
      ? random() * Math.min(BACKOFF_MS * 2 ** tries, LONGEST_BACKOFF_MS)
      : Math.min(askedMs, limits.retryAfterCapMs) * (1 + SPREAD * random());
  return spentMs + waitMs > limits.callMs ? undefined : waitMs;
}

function mayBeRepeated({ kind }: Ending): boolean {
  return kind === 'refused' || kind === 'unknown' || kind === 'not sent';
}

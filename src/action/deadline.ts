const deadlines = new WeakMap<AbortSignal, { monotonic: number; wall: number }>();

/** A signal that aborts after `ms` milliseconds, and that `isOver` knows the end of. */
export function deadlineSignal(ms: number): AbortSignal {
  const signal = AbortSignal.timeout(ms);
  deadlines.set(signal, { monotonic: performance.now() + ms, wall: Date.now() + ms });
  return signal;
}

/**
 * Is the time over? To be asked at the last moment before an effect: in a process that was frozen and has just woken up, what it was about to do
 * comes before the timer that would have aborted the signal (rule R5).
 */
export function isOver(signal: AbortSignal): boolean {
  const end = deadlines.get(signal);
  return signal.aborted || (end !== undefined && (performance.now() >= end.monotonic || Date.now() >= end.wall));
}

/** Throws if the time is over. */
export function throwIfOver(signal: AbortSignal): void {
  signal.throwIfAborted();
  if (isOver(signal)) throw new DOMException('its deadline has passed', 'TimeoutError');
}

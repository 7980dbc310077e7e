/** A provider that asks to wait for longer than this has made a mistake, or wants to be asked by a person. */
const ABSURD_MS = 7 * 24 * 3_600_000;

/**
 * How long the provider asks to wait, in milliseconds: `retry-after-ms`, or `retry-after` in seconds or as a date (RFC 9110, 10.2.3).
 * Undefined where it does not say, or says something that cannot be meant: zero, a time that has passed, more than a week.
 */
export function retryAfterMs(headers: Record<string, string>, now: Date): number | undefined {
  const ms = sensible(Number(headers['retry-after-ms'] || Number.NaN));
  if (ms !== undefined) return ms;
  const asked = headers['retry-after']?.trim() ?? '';
  if (/^[\d.]+$/.test(asked)) return sensible(Number(asked) * 1000);
  return sensible(Date.parse(asked) - now.getTime());
}

function sensible(ms: number): number | undefined {
  return ms > 0 && ms <= ABSURD_MS ? ms : undefined;
}

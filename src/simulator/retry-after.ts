import { SimulatorError } from './simulator-error.ts';

/** How a refusal asks to wait: seconds or a date (RFC 9110), or the milliseconds of `retry-after-ms`. A date is `amount` seconds away. */
export type RetryAfter = { readonly amount: number; readonly form: 'seconds' | 'ms' | 'date' };

const LONGEST_SECONDS = 86_400;

/** One time to wait: `2`, `500ms` or `2date`; undefined for anything else. */
export function retryAfterOf(text: string): RetryAfter | undefined {
  const [, digits, suffix] = /^(\d{1,8})(ms|date)?$/.exec(text.trim()) ?? [];
  if (digits === undefined) return undefined;
  const form = suffix === 'ms' || suffix === 'date' ? suffix : 'seconds';
  const amount = Number(digits);
  return amount > LONGEST_SECONDS * (form === 'ms' ? 1000 : 1) ? undefined : { amount, form };
}

/** The times in a flag such as `1,500ms,2date`, of which each refusal draws one. Throws SimulatorError naming the one that is wrong. */
export function parseRetryAfters(text: string): RetryAfter[] {
  return text.split(',').map((part) => {
    const retryAfter = retryAfterOf(part);
    if (!retryAfter)
      throw new SimulatorError(`--retry-after takes SECONDS, MILLISECONDSms or SECONDSdate, not "${part}"`);
    return retryAfter;
  });
}

/** The header that says so. */
export function retryAfterHeader({ amount, form }: RetryAfter, now = new Date()): Record<string, string> {
  if (form === 'ms') return { 'retry-after-ms': String(amount) };
  if (form === 'seconds') return { 'retry-after': String(amount) };
  // the date's own precision is a second: rounded up, it is never shorter than asked
  const at = new Date(Math.ceil((now.getTime() + amount * 1000) / 1000) * 1000);
  return { 'retry-after': at.toUTCString() };
}

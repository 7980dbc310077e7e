/** What a check of an installation saw, and what it makes of it. */
export interface Finding {
  /** What was looked at, such as `fsync`. */
  readonly check: string;
  /** `fail`: a promise cannot be kept. `warn`: it holds, but for something that a person should know. */
  readonly level: 'ok' | 'warn' | 'fail';
  readonly seen: string;
  /** What a person does next; undefined where there is nothing to do. */
  readonly next: string | undefined;
}

export function ok(check: string, seen: string): Finding {
  return { check, level: 'ok', seen, next: undefined };
}

export function warn(check: string, seen: string, next: string): Finding {
  return { check, level: 'warn', seen, next };
}

export function fail(check: string, seen: string, next: string): Finding {
  return { check, level: 'fail', seen, next };
}

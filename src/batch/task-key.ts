import { MadrugadaError } from '../errors.ts';

export type TaskKey = { readonly batch: string; readonly item: string; readonly version: string };

/** Splits `batch:item:version` at its first and last colon: an item may hold colons, the others may not. Throws a MadrugadaError. */
export function parseTaskKey(key: string): TaskKey {
  const first = key.indexOf(':');
  const last = key.lastIndexOf(':');
  if (first <= 0 || last === key.length - 1 || last <= first + 1) {
    throw new MadrugadaError(`${JSON.stringify(key)} is no task; a task is BATCH:ITEM:VERSION, such as 2026-11:215:v3`);
  }
  return { batch: key.slice(0, first), item: key.slice(first + 1, last), version: key.slice(last + 1) };
}

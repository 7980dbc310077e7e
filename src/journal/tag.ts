import { createHash } from 'node:crypto';

/** The tag a dispatch carries to the provider: a digest of task, seq and dispatch, so that no client's words reach the provider. */
export function tagOf(taskKey: string, seq: number, dispatch: number): string {
  return createHash('sha256').update(`${taskKey}\n${seq}\n${dispatch}`).digest('hex').slice(0, 32);
}

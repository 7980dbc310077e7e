import type { Pool } from 'pg';
import { failpoint } from '../failpoint.ts';
import type { Lease } from '../journal/lease.ts';
import type { Verdict } from '../journal/verdict.ts';
import { type ActionRow, type Conclusion, conclude } from './action-row.ts';

/** What an action works with. */
export interface ActionEnvironment {
  pool: Pool;
  lease: Lease;
  /** Told that the slot is at work, so that it does not count as stuck. */
  onActivity(): void;
}

/** Why the attempt ends here: the action waits, or the attempt must not go on. */
export class AttemptOver extends Error {
  readonly verdict: Verdict;

  constructor(verdict: Verdict) {
    super('message' in verdict ? verdict.message : verdict.kind);
    this.verdict = verdict;
  }
}

/** How long a target that cannot be asked is let alone. */
const RETRY_MS = 30_000;

/** Time must pass first: the task is given back, and looks again. */
export function later({ id, name, now }: ActionRow, why: string, until?: Date): AttemptOver {
  return new AttemptOver({
    kind: 'parked',
    waitingFor: 'action',
    until: until ?? new Date(now.getTime() + RETRY_MS),
    message: `action ${id} (${name}): ${why}`,
  });
}

/** A person must act first: the task is parked, without slot or lease, until somebody has. */
export function untilDecided({ id, name }: ActionRow, why: string): AttemptOver {
  return new AttemptOver({
    kind: 'parked',
    waitingFor: 'approval',
    until: undefined,
    message: `action ${id} (${name}) ${why}; madrugada action show ${id}`,
  });
}

/** The database refuses to let a step begin. What has changed since it was read is seen at the next look; the rest ends the attempt. */
export function heed({ lease }: ActionEnvironment, { id, name }: ActionRow, refusal: string): void {
  const message = `action ${id} (${name}) of task ${lease.key} does not go on: ${refusal}`;
  if (refusal === 'lost') throw new AttemptOver({ kind: 'lost', message });
  if (refusal === 'stopped') throw new AttemptOver({ kind: 'stopped', message });
}

/** Puts the end of an execution or an undo on record; ends the attempt if that is no longer its to do. */
export async function concludeAction(env: ActionEnvironment, row: ActionRow, end: Conclusion): Promise<void> {
  await failpoint('action.conclude.before', row.name);
  const isOurs = await conclude(env.pool, env.lease, row, end);
  await failpoint('action.conclude.after', row.name);
  if (isOurs) return;
  throw later(row, 'somebody else executes it now');
}

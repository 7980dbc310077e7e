import type Big from 'big.js';
import type { Pool } from 'pg';
import { failpoint } from '../failpoint.ts';
import { patiently } from '../postgres/patiently.ts';
import { Together } from '../postgres/together.ts';

/** Who ends an attempt: the lease it must still hold. */
export interface Holder {
  taskId: number;
  workerId: number;
  leaseToken: number;
}

/** Why an attempt ended without an answer; shown to people, kept with the task when it fails. */
export interface Failure {
  kind: string;
  message: string;
  [detail: string]: unknown;
}

interface Answered {
  holder: Holder;
  answer: unknown;
  replayedCalls: number;
}

/** Completes the tasks of one process. */
export class Completions {
  readonly #together: Together<Answered, boolean>;

  constructor(pool: Pool) {
    this.#together = new Together((answered, waits) => completeTogether(pool, answered, waits));
  }

  /**
   * Writes answer and completed in one statement, only while the lease is the holder's (N7). False: it is not any more. Repeated until the
   * database answers; a first commit that was not seen counts.
   */
  async complete(holder: Holder, answer: unknown, replayedCalls: number): Promise<boolean> {
    await failpoint('lease.complete.before');
    const done = await this.#together.do({ holder, answer, replayedCalls });
    await failpoint('lease.complete.after');
    return done;
  }
}

async function completeTogether(pool: Pool, answered: Answered[], waits: boolean): Promise<(boolean | undefined)[]> {
  const { rows } = await patiently(() =>
    pool.query<{ done: boolean | null }>({
      name: 'complete',
      text: 'SELECT done FROM madrugada.complete_tasks($1, $2, $3, $4, $5, $6) ORDER BY place',
      values: [
        answered.map(({ holder }) => holder.taskId),
        answered.map(({ holder }) => holder.workerId),
        answered.map(({ holder }) => holder.leaseToken),
        answered.map(({ answer }) => JSON.stringify(answer)),
        answered.map(({ replayedCalls }) => replayedCalls),
        waits,
      ],
    }),
  );
  return rows.map(({ done }) => done ?? undefined);
}

/** How an attempt ends that has no answer. */
export interface Ending {
  how: 'failed' | 'released' | 'parked' | 'stopped';
  failure: Failure;
  /** No further attempt would help. */
  final: boolean;
  /** When a parked task may be claimed again; undefined with `waitingFor` set: only an event makes it claimable. */
  waitUntil: Date | undefined;
  waitingFor: 'doubt' | 'settlement' | 'refusal' | 'budget' | 'approval' | 'action' | undefined;
  /** The hold that was refused, in dollars; of a task that waits for a budget. */
  needs?: Big;
}

/** Gives a task back, or fails it. Returns its new state, undefined when the lease was no longer the holder's. */
export async function endAttempt(
  pool: Pool,
  holder: Holder,
  ending: Ending,
  replayedCalls: number,
): Promise<'pending' | 'failed' | undefined> {
  await failpoint('lease.end.before');
  const waitUntil = ending.waitingFor === undefined ? null : (ending.waitUntil ?? 'infinity');
  const { rows } = await patiently(() =>
    pool.query<{ state: 'pending' | 'failed' | null }>(
      'SELECT madrugada.end_attempt($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS state',
      [
        holder.taskId,
        holder.workerId,
        holder.leaseToken,
        ending.how,
        JSON.stringify(ending.failure),
        ending.final,
        waitUntil,
        ending.waitingFor ?? null,
        replayedCalls,
        ending.needs?.toFixed() ?? null,
      ],
    ),
  );
  await failpoint('lease.end.after');
  return rows[0]?.state ?? undefined;
}

/** A late outcome was recorded for a task that may be parked because of it. */
export async function wakeTask(pool: Pool, taskId: number): Promise<void> {
  await patiently(() => pool.query('SELECT madrugada.wake_task($1)', [taskId]));
}

import { DatabaseError } from 'pg';
import { Actions } from '../action/actions.ts';
import { AttemptOver } from '../action/attempt-over.ts';
import { undoSaga } from '../action/undo-saga.ts';
import { checkOptions, checkSchema } from '../agent/define-agent.ts';
import type { LoadedAgent } from '../agent/load-agent.ts';
import { RunLost } from '../agent/run-lost.ts';
import { createTask, type ProviderAccess } from '../agent/task.ts';
import { messageOf } from '../errors.ts';
import { Allowance } from '../journal/allowance.ts';
import type { JournalEnvironment } from '../journal/environment.ts';
import type { Lease } from '../journal/lease.ts';
import { loadRecovered } from '../journal/recover-doubts.ts';
import { Session } from '../journal/session.ts';
import type { Verdict } from '../journal/verdict.ts';
import type { ClaimedTask } from '../lease/claim.ts';
import { type Ending, endAttempt, wakeTask } from '../lease/finish.ts';

/** How an attempt ended, for the worker's account. */
export interface AttemptResult {
  ending: 'completed' | Ending['how'] | 'lost';
  /** Failed for good: no attempt is left. */
  isFinal: boolean;
  message: string | undefined;
  replayedCalls: number;
}

type RunEnd =
  | { kind: 'answered'; answer: unknown }
  | { kind: 'threw'; error: unknown }
  | { kind: 'verdict'; verdict: Verdict };

/** A run is started over this often within an attempt because what it held was lost; what is lost every time is not lost by chance. */
const MAX_LOST_RUNS = 10;

/** Runs an agent on a claimed task, from its journal or live, to an answer or another end, and writes that end under the lease. */
export async function runAttempt(
  env: JournalEnvironment,
  loaded: LoadedAgent,
  claimed: ClaimedTask,
  lease: Lease,
  access: ProviderAccess,
  hooks: { onSession(session: Session): void; onActivity(): void },
): Promise<AttemptResult> {
  const allowance = openAllowance(env, lease, claimed);
  for (let lostRuns = 0; ; ) {
    const { journal, parked } = await loadRecovered(env, lease);
    const session = new Session(env, lease, journal, allowance, hooks.onActivity);
    hooks.onSession(session);
    if (parked) session.end(parked);
    let end: RunEnd;
    if (claimed.undoing) end = { kind: 'verdict', verdict: await undo(env, loaded, lease, claimed.undoing, hooks) };
    else if (parked) end = { kind: 'verdict', verdict: parked };
    else end = await run(env, session, loaded, claimed, access, hooks);
    const isLost = end.kind === 'threw' && end.error instanceof RunLost;
    if (isLost && lostRuns < MAX_LOST_RUNS) {
      lostRuns += 1;
      session.end({ kind: 'replay' });
      end = { kind: 'verdict', verdict: { kind: 'replay' } };
    }
    if (end.kind === 'verdict' && end.verdict.kind === 'replay') {
      await session.settled();
      continue;
    }
    const unused = end.kind === 'verdict' ? undefined : session.close();
    const divergence = isLost ? undefined : unused; // it did not get as far as to use them
    // what was sent is waited for, awaited by the code or not, unless another may already have the task
    if (end.kind !== 'verdict' || end.verdict.kind === 'released' || end.verdict.kind === 'stopped')
      await session.settled();
    if (end.kind === 'verdict' && end.verdict.kind !== 'lost') await session.actionsSettled();
    const result = await finish(
      env,
      claimed,
      lease,
      session,
      divergence ? { kind: 'verdict', verdict: explain(divergence, end) } : end,
    );
    if (result.ending === 'lost') await wakeTask(env.pool, lease.taskId); // its next holder may wait for what we have recorded
    return result;
  }
}

/** The attempt's purse, with what was drawn when its task was claimed; it lasts for all runs of the attempt. */
function openAllowance(env: JournalEnvironment, lease: Lease, { funds }: ClaimedTask): Allowance {
  const holder = { taskId: lease.taskId, workerId: lease.workerId, leaseToken: lease.token };
  return new Allowance(funds, (needed, asked) => env.draws.draw(holder, needed, asked));
}

/** The task has failed, and leaves nothing behind that its actions have done: then its failure is written. */
async function undo(
  env: JournalEnvironment,
  { agent }: LoadedAgent,
  lease: Lease,
  failure: Ending['failure'],
  { onActivity }: { onActivity(): void },
): Promise<Verdict> {
  try {
    const left = await undoSaga({ pool: env.pool, lease, onActivity }, agent.actions ?? [], failure.message);
    const isAllUndone = left.length === 0;
    const message = isAllUndone
      ? failure.message
      : `${failure.message}; not undone, left to a person: ${left.join(', ')}`;
    return { kind: 'undone', failure: { ...failure, message } };
  } catch (error) {
    return error instanceof AttemptOver ? error.verdict : { kind: 'broken', error };
  }
}

async function run(
  env: JournalEnvironment,
  session: Session,
  { agent }: LoadedAgent,
  claimed: ClaimedTask,
  access: ProviderAccess,
  { onActivity }: { onActivity(): void },
): Promise<RunEnd> {
  const produce = async (): Promise<RunEnd> => {
    try {
      const input = await checkSchema(agent.input, claimed.input);
      if (input.problems) throw new Error(`its input does not fit the agent: ${input.problems.join('; ')}`);
      const options = await checkOptions(agent, claimed.agentOptions);
      if (options.problems) throw new Error(`its options do not fit the agent: ${options.problems.join('; ')}`);
      const actions = new Actions(env.pool, session, agent.actions ?? [], onActivity);
      const task = createTask(session, claimed, { input: input.value, options: options.value }, access, actions);
      const output = await checkSchema(agent.output, await agent.run(task));
      if (output.problems) throw new Error(`its answer does not fit the agent: ${output.problems.join('; ')}`);
      await agent.check?.(output.value, task);
      return { kind: 'answered', answer: output.value };
    } catch (error) {
      return { kind: 'threw', error };
    }
  };
  return Promise.race([produce(), session.ended.then((verdict): RunEnd => ({ kind: 'verdict', verdict }))]);
}

/** What the code threw may say why it did not use the rest of its journal. */
function explain(divergence: Verdict, end: RunEnd): Verdict {
  if (divergence.kind !== 'diverged' || end.kind !== 'threw') return divergence;
  return { ...divergence, message: `${divergence.message} The run had thrown: ${messageOf(end.error)}` };
}

async function finish(
  env: JournalEnvironment,
  claimed: ClaimedTask,
  lease: Lease,
  session: Session,
  end: RunEnd,
): Promise<AttemptResult> {
  const holder = { taskId: lease.taskId, workerId: lease.workerId, leaseToken: lease.token };
  const { replayedCalls } = session;
  if (end.kind === 'answered') {
    try {
      const done = await env.completions.complete(holder, end.answer, replayedCalls);
      return { ending: done ? 'completed' : 'lost', isFinal: done, message: undefined, replayedCalls };
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      // such as a NUL character, which jsonb cannot keep
      return fail(
        { kind: 'answer', message: `the database refuses the answer of task ${claimed.key}: ${error.message}` },
        false,
      );
    }
  }
  if (end.kind === 'threw')
    return fail(
      { kind: 'agent', message: session.permanentFailure ?? messageOf(end.error) },
      session.permanentFailure !== undefined,
    );
  return conclude(end.verdict);

  async function fail(failure: Ending['failure'], final: boolean): Promise<AttemptResult> {
    return write({ how: 'failed', failure, final, waitUntil: undefined, waitingFor: undefined });
  }

  async function write(ending: Ending): Promise<AttemptResult> {
    const state = await endAttempt(env.pool, holder, ending, replayedCalls);
    return {
      ending: state ? ending.how : 'lost',
      isFinal: state === 'failed',
      message: ending.failure.message,
      replayedCalls,
    };
  }

  async function conclude(verdict: Verdict): Promise<AttemptResult> {
    switch (verdict.kind) {
      case 'diverged':
        return fail(
          { kind: 'diverged', message: verdict.message, seq: verdict.seq ?? null, atRest: verdict.atRest },
          true,
        );
      case 'parked':
        return write({
          how: 'parked',
          failure: { kind: 'parked', message: verdict.message },
          final: false,
          waitUntil: verdict.until,
          waitingFor: verdict.waitingFor,
          ...(verdict.waitingFor === 'budget' && { needs: verdict.needs }),
        });
      case 'undone':
        return fail(verdict.failure, true);
      case 'refused':
        return fail({ kind: 'refused', message: verdict.message }, true);
      case 'stopped':
        return write({
          how: 'stopped',
          failure: { kind: 'stopped', message: verdict.message },
          final: false,
          waitUntil: undefined,
          waitingFor: undefined,
        });
      case 'released':
        return write({
          how: 'released',
          failure: { kind: 'released', message: verdict.message },
          final: false,
          waitUntil: undefined,
          waitingFor: undefined,
        });
      case 'lost':
        return { ending: 'lost', isFinal: false, message: verdict.message, replayedCalls };
      case 'broken':
        return fail({ kind: 'journal', message: messageOf(verdict.error) }, false);
      case 'replay':
        throw new Error('a replayed run goes on, it does not end');
    }
  }
}

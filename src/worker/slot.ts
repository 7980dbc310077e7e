import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type LoadedAgent, loadAgent } from '../agent/load-agent.ts';
import type { ProviderAccess } from '../agent/task.ts';
import { messageOf } from '../errors.ts';
import type { JournalEnvironment } from '../journal/environment.ts';
import type { Lease } from '../journal/lease.ts';
import type { Session } from '../journal/session.ts';
import { type ClaimedTask, claimTask, nextClaimableAt } from '../lease/claim.ts';
import { endAttempt } from '../lease/finish.ts';
import { releaseUnknownClaims } from '../lease/reclaim.ts';
import type { Heartbeat } from './heartbeat.ts';
import type { OpenBatch, OpenBatches } from './open-batches.ts';
import { type AttemptResult, runAttempt } from './run-attempt.ts';
import type { WakeUp } from './wake-up.ts';

/** What the slots of one worker process share. */
export interface SlotHost {
  env: JournalEnvironment;
  workerId: number;
  access: ProviderAccess;
  batches: OpenBatches;
  wakeUp: WakeUp;
  heartbeat: Heartbeat;
  log: Logger;
  onAttemptEnd(result: AttemptResult): void;
  /** Work that outlives its attempt: outcomes of calls that were in flight when the lease was lost. */
  onLeftover(work: Promise<void>): void;
}

/** The slow poll behind LISTEN/NOTIFY. */
const POLL_MS = 5_000;
const AFTER_ERROR_MS = 250;

/** One slot: claims a task, runs an attempt on it, and so on until it is told to stop. */
export class Slot {
  readonly name: string;
  readonly #index: number;
  readonly #host: SlotHost;
  readonly #agents = new Map<string, Promise<LoadedAgent>>();
  #session: Session | undefined;
  #stopping = false;

  constructor(name: string, index: number, host: SlotHost) {
    this.name = name;
    this.#index = index;
    this.#host = host;
  }

  /** The lease of the attempt that is running, if any. */
  get lease(): Lease | undefined {
    return this.#session?.lease;
  }

  /** Runs until stopped. The database being away is waited out. */
  async run(): Promise<void> {
    while (!this.#stopping) {
      try {
        const heard = this.#host.wakeUp.calls;
        const claimed = await this.#claim();
        if (claimed) await this.#attempt(claimed.task, claimed.batchKey);
        else if (!this.#stopping) await this.#idle(heard);
      } catch (error) {
        this.#host.log.warn({ slot: this.name, err: messageOf(error) }, 'slot interrupted; it goes on');
        await delay(AFTER_ERROR_MS);
      }
    }
  }

  /** Takes no further task; what runs is given back once its calls in flight are recorded. */
  stop(reason: string): void {
    this.#stopping = true;
    this.#session?.end({ kind: 'released', message: reason });
  }

  /** The lease, or the slot itself, has gone to somebody else: nothing more is sent, what is in flight is still recorded. */
  lose(message: string): void {
    this.#session?.end({ kind: 'lost', message });
  }

  /** Its batch, or everything, is stopped: nothing more is sent, and the task is given back once what is in flight is recorded. */
  endStopped(message: string): void {
    this.#session?.end({ kind: 'stopped', message });
  }

  /** What is in flight is not waited for either. */
  cutOff(reason: string): void {
    this.#session?.cutOff(reason);
  }

  async #claim(): Promise<{ task: ClaimedTask; batchKey: string } | undefined> {
    const { env, workerId, batches } = this.#host;
    // before every claim: one whose commit was not seen may still have been committing at the last look
    await releaseUnknownClaims(env.pool, this.name, workerId, []);
    for (const batch of batches.all) {
      const sha256 = await this.#digestOf(batch);
      if (sha256 === undefined) continue;
      const task = await claimTask(env.pool, {
        batchKey: batch.batchKey,
        slot: this.name,
        workerId,
        agentSha256: sha256,
        after: batch.after,
      });
      if (task === undefined) continue;
      if (task.leaseToken === 1) batch.after = Math.max(batch.after, task.position);
      return { task, batchKey: batch.batchKey };
    }
    return undefined;
  }

  async #attempt(task: ClaimedTask, batchKey: string): Promise<void> {
    const { env, workerId, heartbeat, log } = this.#host;
    const lease: Lease = {
      batchKey,
      taskId: task.taskId,
      key: task.key,
      slot: this.name,
      workerId,
      token: task.leaseToken,
    };
    const loaded = await this.#agent(task.agent);
    if (task.previousAgentSha256 !== null && task.previousAgentSha256 !== loaded.sha256)
      log.warn(
        { task: task.key },
        'the agent has changed since the last attempt; if its calls differ, the task will stop as diverged',
      );
    heartbeat.hold(this.#index, { taskId: task.taskId, token: task.leaseToken });
    try {
      const result = await runAttempt(env, loaded, task, lease, this.#host.access, {
        onSession: (session) => {
          this.#session = session;
          if (this.#stopping) this.stop('the worker is stopping');
        },
        onActivity: () => heartbeat.advance(this.#index),
      });
      log.info(
        {
          task: task.key,
          slot: this.name,
          ending: result.ending,
          replayed: result.replayedCalls,
          message: result.message,
        },
        'attempt ended',
      );
      this.#host.onAttemptEnd(result);
    } catch (error) {
      // our own defect, or the database's: used up like an agent's failure, or a task that always brings it about would run all night
      await this.#fail(lease, error);
      throw error;
    } finally {
      if (this.#session?.hasCallsInFlight) this.#host.onLeftover(this.#session.settled());
      this.#session = undefined;
      heartbeat.hold(this.#index, undefined);
    }
  }

  async #fail({ taskId, workerId, token: leaseToken }: Lease, error: unknown): Promise<void> {
    const failure = { kind: 'harness', message: messageOf(error) };
    const ending = { how: 'failed', failure, final: false, waitUntil: undefined, waitingFor: undefined } as const;
    await endAttempt(this.#host.env.pool, { taskId, workerId, leaseToken }, ending, 0);
  }

  async #idle(heard: number): Promise<void> {
    await this.#host.wakeUp.wait(await this.#idleMs(), heard);
    if (!this.#stopping) await this.#host.batches.refresh();
  }

  /** Until a task given back becomes claimable, at most the slow poll. */
  async #idleMs(): Promise<number> {
    const { env, batches } = this.#host;
    const times = await Promise.all(batches.all.map((batch) => nextClaimableAt(env.pool, batch.batchKey)));
    const waits = times.flatMap((at) => (at ? [Math.max(20, at.getTime() - Date.now())] : []));
    return Math.min(POLL_MS, ...waits);
  }

  /** The digest of a batch's agent. One that cannot be loaded stops its batch: at night nobody can mend it. */
  async #digestOf(batch: OpenBatch): Promise<string | undefined> {
    try {
      return (await this.#agent(batch.agent)).sha256;
    } catch (error) {
      this.#agents.delete(batch.agent);
      this.#host.log.error(
        { batch: batch.batchKey, err: messageOf(error) },
        'the agent cannot be loaded; its batch is stopped',
      );
      const stop = `SELECT madrugada.stop_automatically($1, 'agent', $2)`;
      await this.#host.env.pool.query(stop, [batch.batchKey, messageOf(error)]);
      return undefined;
    }
  }

  #agent(spec: string): Promise<LoadedAgent> {
    const known = this.#agents.get(spec) ?? loadAgent(spec);
    this.#agents.set(spec, known);
    return known;
  }
}

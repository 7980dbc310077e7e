import type { Pool } from 'pg';
import type { Logger } from 'pino';
import { Agent as HttpAgent } from 'undici';
import type { ProviderAccess } from '../agent/task.ts';
import type { AlertChannels } from '../batch/alert-channels.ts';
import { deliverAlerts } from '../batch/deliver-alerts.ts';
import type { Queryable } from '../batch/queryable.ts';
import { MadrugadaError, messageOf } from '../errors.ts';
import type { JournalEnvironment, Limits } from '../journal/environment.ts';
import { HoldWatch } from '../journal/hold-watch.ts';
import { JournalWriter } from '../journal/journal-writer.ts';
import type { LookUp } from '../journal/look-up.ts';
import type { Tagging } from '../journal/tag.ts';
import { thisProcess } from '../lease/process-identity.ts';
import { leaveWorker, registerWorker } from '../lease/worker-row.ts';
import { openClient, openPool } from '../postgres/connect.ts';
import { requireSchema } from '../postgres/migrate.ts';
import { Pace } from '../provider/pace.ts';
import { readPrices } from '../provider/read-prices.ts';
import { Heartbeat } from './heartbeat.ts';
import type { HeldTask } from './heartbeat-protocol.ts';
import { OpenBatches } from './open-batches.ts';
import { Reaper } from './reaper.ts';
import type { AttemptResult } from './run-attempt.ts';
import { Slot, type SlotHost } from './slot.ts';
import { type OnNotification, SlotLocks } from './slot-locks.ts';
import { type StopInForce, stopsInForce } from './stops-in-force.ts';
import { WakeUp } from './wake-up.ts';

/** What one worker process is told. Times in milliseconds. */
export interface WorkerOptions {
  url: string;
  slots: string[];
  /** Serve this batch only; undefined: any that is open. */
  batchKey: string | undefined;
  access: ProviderAccess;
  limits: Limits;
  lookUp: LookUp | undefined;
  tagging: Tagging;
  hungMs: number;
  stuckMs: number;
  alwaysReplay: boolean;
  alertChannels: AlertChannels;
  log: Logger;
  onRegistered(workerId: number): void;
  onCharge(usd: string | undefined): void;
  onAttemptEnd(result: AttemptResult): void;
}

/** Connections for claiming, reading and finishing; with the journal's writer four for work (rule R12). */
const POOL_SIZE = 3;
const HEARTBEAT_MS = 2_000;
const REAP_MS = 1_000;
const DELIVER_MS = 2_000;

/** A worker process: its connections, its heartbeat, its slots. */
export class WorkerProcess {
  readonly #options: WorkerOptions;
  readonly #wakeUp = new WakeUp();
  readonly #leftovers = new Set<Promise<void>>();
  #slots: Slot[] = [];
  #stopReason: string | undefined;
  #saidStops = new Map<string, StopInForce>();

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  /** Runs until stopped. Throws when a slot is taken, or the database is not the one it was. */
  async run(): Promise<void> {
    const { url, log } = this.#options;
    const workerId = await this.#register();
    const connect = (purpose: string) =>
      openClient({ url, as: 'worker', applicationName: `madrugada/w${workerId}/${purpose}` });
    const pool = openPool({ url, as: 'worker', applicationName: `madrugada/w${workerId}/work`, max: POOL_SIZE });
    const pace = new Pace(pool);
    const locks = new SlotLocks(
      () => connect('slots'),
      this.#options.slots,
      new Map<string, OnNotification>([
        ['madrugada_work', () => this.#wakeUp.wakeAll()],
        ['madrugada_stop', () => void this.#endStopped(pool)],
        ['madrugada_pace', () => void this.#learnPace(pace)],
      ]),
      (slot) => this.#loseSlot(slot),
    );
    const writer = new JournalWriter(() => connect('journal'));
    try {
      await locks.take();
      await pace.refresh();
      await this.#serve(workerId, await this.#environment(pool, writer, pace));
      await Promise.all(this.#leftovers);
      await writer.close();
      await leaveWorker(pool, workerId, this.#stopReason ?? 'ended');
    } catch (error) {
      log.error({ err: messageOf(error) }, 'the worker ends');
      await leaveWorker(pool, workerId, `failed: ${messageOf(error)}`);
      throw error;
    } finally {
      await locks.close();
      await pool.end();
    }
  }

  /** First call: no further task, what runs is given back when its calls in flight are recorded. */
  stop(reason: string): void {
    this.#stopReason ??= reason;
    for (const slot of this.#slots) slot.stop(reason);
    this.#wakeUp.wakeAll();
  }

  async #register(): Promise<number> {
    const client = await openClient({ url: this.#options.url, as: 'worker', applicationName: 'madrugada/register' });
    try {
      await requireSchema(client);
      const { rows } = await client.query<{ same: boolean }>('SELECT madrugada.check_server_identity() AS same');
      if (!rows[0]?.same) {
        await this.#tell(client); // nobody else will: no worker gets further than this
        throw new MadrugadaError(
          'the database is not the server it was: a restored backup or a failover may have lost its last records. Everything is stopped; see the runbook, "restored database"',
          1,
        );
      }
      const workerId = await registerWorker(client, thisProcess());
      this.#options.onRegistered(workerId);
      return workerId;
    } finally {
      await client.end();
    }
  }

  async #environment(pool: JournalEnvironment['pool'], writer: JournalWriter, pace: Pace): Promise<JournalEnvironment> {
    const { limits, lookUp, tagging, log, alwaysReplay, onCharge } = this.#options;
    // a provider's answers may be as slow as the dispatch deadline allows; connecting may not
    const dispatcher = new HttpAgent({ connect: { timeout: 10_000 }, keepAliveTimeout: 30_000 });
    return {
      writer,
      pool,
      dispatcher,
      prices: await readPrices(pool),
      pace,
      holds: new HoldWatch((batch, message) => this.#options.log.warn({ batch }, message)),
      limits,
      lookUp,
      tagging,
      log,
      alwaysReplay,
      onCharge,
    };
  }

  async #serve(workerId: number, env: JournalEnvironment): Promise<void> {
    const { slots, batchKey, url, hungMs, stuckMs, access, log, onAttemptEnd } = this.#options;
    const batches = new OpenBatches(env.pool, batchKey);
    await batches.refresh();
    const heartbeat = new Heartbeat(
      { url, workerId, intervalMs: HEARTBEAT_MS, hungMs, stuckMs },
      slots.length,
      (lost) => this.#loseLeases(lost),
    );
    const host: SlotHost = {
      env,
      workerId,
      access,
      batches,
      wakeUp: this.#wakeUp,
      heartbeat,
      log,
      onAttemptEnd,
      onLeftover: (work) => this.#keep(work),
    };
    this.#slots = slots.map((name, index) => new Slot(name, index, host));
    if (this.#stopReason) this.stop(this.#stopReason);
    const reaping = await this.#reapRegularly(new Reaper(env.pool, workerId), env.pool);
    const delivery = this.#deliverRegularly(env.pool);
    await Promise.all(this.#slots.map((slot) => slot.run()));
    clearInterval(reaping);
    await delivery.end();
    await heartbeat.stop();
  }

  /**
   * Resolves after the first round: what a slot left running under its name goes back before it claims anything. Each round looks at the stops,
   * too: a connection that is dead without anybody having noticed hears of none.
   */
  async #reapRegularly(reaper: Reaper, pool: Pool): Promise<NodeJS.Timeout> {
    let busy = false;
    const round = async () => {
      if (busy) return;
      busy = true;
      try {
        await this.#endStopped(pool);
        if ((await reaper.reap()) > 0) this.#wakeUp.wakeAll();
      } catch (error) {
        this.#options.log.debug({ err: messageOf(error) }, 'no sweep this time'); // the database is away; the next round comes in a second
      } finally {
        busy = false;
      }
    };
    await round();
    return setInterval(round, REAP_MS);
  }

  /** Alerts go out while the worker runs, and once more at its end: what stopped the last batch is told before the worker is gone. */
  #deliverRegularly(pool: Pool): { end(): Promise<void> } {
    let round: Promise<unknown> | undefined;
    const deliver = () => {
      round ??= this.#tell(pool).finally(() => {
        round = undefined;
      });
      return round;
    };
    const delivering = setInterval(deliver, DELIVER_MS);
    return {
      async end() {
        clearInterval(delivering);
        await round;
        await deliver();
      },
    };
  }

  /** Delivers the alerts that are due; never rejects. */
  async #tell(database: Queryable): Promise<void> {
    const { alertChannels, log } = this.#options;
    try {
      await deliverAlerts(database, alertChannels, ({ alertId, channel, error }) =>
        log.warn({ alert: alertId, channel, err: error }, 'an alert could not be delivered; it is tried again'),
      );
    } catch (error) {
      log.debug({ err: messageOf(error) }, 'no alerts this time'); // the database is away
    }
  }

  async #learnPace(pace: Pace): Promise<void> {
    try {
      if ((await pace.refresh()) > 0) this.#options.log.info('the fleet has been asked to slow down: calls take turns');
    } catch (error) {
      this.#options.log.warn(
        { err: messageOf(error) },
        'cannot read the pace; this worker slows down at its own first refusal',
      );
    }
  }

  #loseLeases(lost: HeldTask[]): void {
    for (const slot of this.#slots)
      if (lost.some(({ taskId, token }) => slot.lease?.taskId === taskId && slot.lease.token === token))
        slot.lose(`slot ${slot.name} has lost its lease`);
  }

  /**
   * Whatever was notified, or if nothing was heard: the database says what is stopped, and of that, where dispatches in flight are to be broken
   * off. Without it nothing is sent anyway, and it is asked again when it is back.
   */
  async #endStopped(pool: Pool): Promise<void> {
    const held = this.#slots.flatMap((slot) => (slot.lease ? [{ slot, lease: slot.lease }] : []));
    try {
      const stops = await stopsInForce(pool, [...new Set(held.map(({ lease }) => lease.batchKey))]);
      this.#sayStops(stops);
      for (const { slot, lease } of held) {
        const stop = stops.get(lease.batchKey);
        if (stop === undefined || slot.lease !== lease) continue; // an attempt that began meanwhile may have begun after a resumption
        slot.endStopped(stop.message);
        if (stop.cutOff) slot.cutOff('a person has stopped what was in flight');
      }
    } catch (error) {
      this.#options.log.warn({ err: messageOf(error) }, 'cannot see what is stopped; nothing stopped is sent anyway');
    }
  }

  /** A stop is found again at every look while its tasks have calls in flight; it is said once. */
  #sayStops(stops: Map<string, StopInForce>): void {
    for (const [batch, { message, cutOff }] of stops) {
      const said = this.#saidStops.get(batch);
      if (said?.message !== message) this.#options.log.warn({ batch, why: message }, 'stopped: nothing more is sent');
      if (cutOff && !said?.cutOff)
        this.#options.log.warn({ batch }, 'stopped at once: what is in flight is broken off');
    }
    this.#saidStops = stops;
  }

  #loseSlot(name: string): void {
    const slot = this.#slots.find((slot) => slot.name === name);
    slot?.lose(`slot ${name} was taken by another process while the database was away`);
    slot?.stop(`slot ${name} is held by another process`);
  }

  #keep(work: Promise<void>): void {
    const kept = work.finally(() => this.#leftovers.delete(kept));
    this.#leftovers.add(kept);
  }
}

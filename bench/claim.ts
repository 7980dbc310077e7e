import type { Client, Pool } from 'pg';
import { claimTask } from '../src/lease/claim.ts';
import { completeTask } from '../src/lease/finish.ts';
import { thisProcess } from '../src/lease/process-identity.ts';
import { registerWorker } from '../src/lease/worker-row.ts';
import { openClient, openPool } from '../src/postgres/connect.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { load } from './contender-madrugada.ts';
import { median, printRates, secondsOf } from './measure.ts';
import { openGraphile, openPgBoss, type Queue } from './queues.ts';
import { Server } from './server.ts';

/** Loops that claim and complete at once, in each contender. */
const LOOPS = 4;
/** Tasks claimed and completed in one round. */
const ROUND = 1_000;
const SMALL = 10_000;
const BIG = 1_000_000;
const COMPLETED_BEFORE = 500_000;

/** Empty tasks claimed and completed per second, beside two queues on the same server; with `big`, also in a table of 1,000,000. */
export async function benchClaim(rounds: number, big: boolean): Promise<void> {
  const server = await Server.start();
  try {
    const small = await compareQueues(server, SMALL, rounds);
    if (!big) return;
    const large = await compareQueues(server, BIG, rounds);
    printTimes(small, large);
  } finally {
    await server.stop();
  }
}

async function compareQueues(server: Server, tasks: number, rounds: number): Promise<number> {
  const ours = await Claims.open(await server.database(`madrugada_${tasks}`), tasks);
  const peers = [
    await openPgBoss(await server.database(`pgboss_${tasks}`), tasks, LOOPS),
    await openGraphile(await server.database(`graphile_${tasks}`), tasks, LOOPS),
  ];
  const queues: Queue[] = [ours, ...peers];
  const rates = new Map<string, number[]>(queues.map(({ name }) => [name, []]));
  for (const queue of queues) await queue.take(ROUND / 5); // connections and compiled code are not what is measured
  for (let round = 1; round <= rounds; round += 1)
    for (const queue of queues) {
      const seconds = await secondsOf(() => queue.take(ROUND));
      rates.get(queue.name)?.push(ROUND / seconds);
    }
  printRates(`${tasks} tasks in the table, ${LOOPS} loops`, 'tasks', rates);
  if (tasks === BIG) await ours.measureBehindSnapshot(rounds);
  for (const queue of queues) await queue.close();
  return 1 / median(rates.get(ours.name) ?? []);
}

function printTimes(small: number, large: number): void {
  process.stdout.write(
    `\na claim and completion at ${BIG} tasks takes ${(large / small).toFixed(2)} x that at ${SMALL}\n`,
  );
}

/** The product's own claim and completion. */
class Claims implements Queue {
  readonly name = 'madrugada';
  readonly #pool: Pool;
  readonly #owner: Client;
  readonly #batchKey: string;
  readonly #workerId: number;
  #after = 0;

  private constructor(pool: Pool, owner: Client, batchKey: string, workerId: number) {
    this.#pool = pool;
    this.#owner = owner;
    this.#batchKey = batchKey;
    this.#workerId = workerId;
  }

  static async open(url: string, tasks: number): Promise<Claims> {
    await migrate(url);
    const operator = await openClient({ url, as: 'operator', applicationName: 'bench load', queryTimeoutMs: 0 });
    const batchKey = await load(operator, 'bench', tasks);
    await operator.end();
    const pool = openPool({ url, as: 'worker', applicationName: 'bench', max: LOOPS });
    const client = await openClient({ url, as: 'worker', applicationName: 'bench' });
    const workerId = await registerWorker(client, thisProcess());
    await client.end();
    const owner = await openClient({ url, applicationName: 'bench owner', queryTimeoutMs: 0 });
    await owner.query('VACUUM ANALYZE');
    return new Claims(pool, owner, batchKey, workerId);
  }

  async take(count: number): Promise<void> {
    await Promise.all(Array.from({ length: LOOPS }, (_, loop) => this.#loop(`slot-${loop}`, count / LOOPS)));
  }

  async #loop(slot: string, count: number): Promise<void> {
    const claim = { batchKey: this.#batchKey, workerId: this.#workerId, agentSha256: 'bench' };
    for (let n = 0; n < count; n += 1) {
      const task = await claimTask(this.#pool, { ...claim, slot, after: this.#after });
      if (task === undefined) throw new Error('no task is left');
      this.#after = Math.max(this.#after, task.position);
      const holder = { taskId: task.taskId, workerId: this.#workerId, leaseToken: task.leaseToken };
      await completeTask(this.#pool, holder, {}, 0);
    }
  }

  /** After many completions that no vacuum may clean up, because an old snapshot still sees what was before. */
  async measureBehindSnapshot(rounds: number): Promise<void> {
    const before = await this.#median(rounds);
    const snapshot = await this.#pool.connect();
    await snapshot.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM madrugada.task');
    try {
      await this.#completeMany();
      const after = await this.#median(rounds);
      process.stdout.write(
        `after ${COMPLETED_BEFORE} completions behind an old snapshot a claim and completion takes ${(after / before).toFixed(2)} x as long\n`,
      );
    } finally {
      await snapshot.query('COMMIT');
      snapshot.release();
    }
  }

  async #median(rounds: number): Promise<number> {
    const seconds: number[] = [];
    for (let round = 0; round < rounds; round += 1) seconds.push(await secondsOf(() => this.take(ROUND)));
    return median(seconds);
  }

  async #completeMany(): Promise<void> {
    await this.#owner.query(`
      DO $$
      DECLARE task record; last integer := ${this.#after};
      BEGIN
        FOR n IN 1 .. ${COMPLETED_BEFORE} LOOP
          SELECT * INTO task FROM madrugada.claim_task('${this.#batchKey}', 'bulk', ${this.#workerId}, 'bench', last);
          last := task.position;
          PERFORM madrugada.complete_task(task.task_id, ${this.#workerId}, task.lease_token, '{}', 0);
          IF n % 1000 = 0 THEN COMMIT; END IF;
        END LOOP;
      END $$`);
    this.#after += COMPLETED_BEFORE;
  }

  async close(): Promise<void> {
    await Promise.all([this.#pool.end(), this.#owner.end()]);
  }
}

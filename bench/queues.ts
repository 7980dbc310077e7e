import { Logger, run, runMigrations } from 'graphile-worker';
import pg from 'pg';
import { PgBoss } from 'pg-boss';

/** A queue with many empty tasks. */
export interface Queue {
  name: string;
  /** Claims and completes `count` tasks. */
  take(count: number): Promise<void>;
  close(): Promise<void>;
}

const INSERT_AT_ONCE = 10_000;

/** pg-boss, one job at a time: `fetch`, then `complete`. */
export async function openPgBoss(connectionString: string, tasks: number, loops: number): Promise<Queue> {
  const boss = new PgBoss({ connectionString, max: loops, supervise: false, schedule: false });
  boss.on('error', (error) => process.stderr.write(`pg-boss: ${error.message}\n`));
  await boss.start();
  await boss.createQueue('bench');
  for (let from = 0; from < tasks; from += INSERT_AT_ONCE)
    await boss.insert(
      'bench',
      Array.from({ length: Math.min(INSERT_AT_ONCE, tasks - from) }, () => ({ data: {} })),
    );
  await vacuum(connectionString);
  const loop = async (count: number) => {
    for (let n = 0; n < count; n += 1) {
      const [job] = await boss.fetch('bench');
      if (job === undefined) throw new Error('no job is left');
      await boss.complete('bench', job.id);
    }
  };
  return {
    name: 'pg-boss',
    take: async (count) => void (await Promise.all(Array.from({ length: loops }, () => loop(count / loops)))),
    close: () => boss.stop({ graceful: false }),
  };
}

/** graphile-worker as it is by default, with as many jobs at once. A runner takes what there is until the round is over. */
export async function openGraphile(connectionString: string, tasks: number, loops: number): Promise<Queue> {
  const pool = new pg.Pool({ connectionString, max: loops + 2 });
  pool.on('error', () => undefined); // the server stops while idle connections still say goodbye
  let left = 0;
  let roundIsOver: () => void = () => undefined;
  const options = {
    pgPool: pool,
    concurrency: loops,
    noHandleSignals: true,
    logger: new Logger(() => () => undefined),
    taskList: {
      async bench() {
        left -= 1;
        if (left === 0) roundIsOver();
      },
    },
  };
  await runMigrations(options);
  await pool.query(
    `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
       SELECT ROW('bench', '{}', NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec FROM generate_series(1, $1)))`,
    [tasks],
  );
  await vacuum(connectionString);
  return {
    name: 'graphile-worker',
    async take(count) {
      left = count;
      const over = new Promise<void>((resolve) => {
        roundIsOver = resolve;
      });
      const runner = await run(options);
      await over;
      await runner.stop();
    },
    close: () => pool.end(),
  };
}

async function vacuum(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  await client.query('VACUUM ANALYZE');
  await client.end();
}

import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { bankDatabase } from '../support/bank.ts';
import { startCommand } from '../support/command.ts';
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import { randomFrom } from '../support/random.ts';
import { testFolder } from '../support/test-folder.ts';

const ORDERS = ['done-mark first', 'effect first', 'intent, effect, verify'];
const LANES = 2;
const CRASHES = 210;
const SEED = 20_261_203;
/** About as many as the slowest order needs for two transfers, while the others make theirs. */
const MOMENTS = 300;
const JOBS_EACH = 5_000;
const WORKER = join(packageRoot(), 'test', 'support', 'order-worker.ts');

const bank = bankDatabase();
let own: TestDatabase;

beforeAll(async () => {
  own = await createEmptyDatabase();
  await own.pool.query(`CREATE TABLE public.job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, worker text NOT NULL,
    "from" bigint NOT NULL, "to" bigint NOT NULL, state text NOT NULL DEFAULT 'open')`);
  await own.pool.query('CREATE INDEX ON public.job (worker, id) WHERE state <> $$done$$');
  const workers = Array.from({ length: LANES }, (_, lane) => ORDERS.map((order) => `${order} ${lane}`)).flat();
  for (const [n, worker] of workers.entries()) {
    const [from, to] = [2 * n + 1, 2 * n + 2];
    await bank.db.pool.query('INSERT INTO bank.account (id, balance) VALUES ($1, 1e15), ($2, 0)', [from, to]);
    await own.pool.query(
      'INSERT INTO public.job (worker, "from", "to") SELECT $1, $2, $3 FROM generate_series(1, $4)',
      [worker, from, to, JOBS_EACH],
    );
  }
});
afterAll(() => own?.drop());

test(`of three orders of steps, over ${CRASHES} crashes of each, one neither loses nor repeats a transfer`, async () => {
  const random = randomFrom(SEED);
  const moments = Array.from({ length: CRASHES }, () => 1 + Math.floor(random() * MOMENTS));
  const cache = testFolder();
  // Only a process that ends by itself leaves its compiled code for the others: a third of their time.
  await runWorker(0, 0, cache);
  const kills = await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => {
      let killed = 0;
      for (const moment of moments.filter((_, n) => n % LANES === lane))
        if ((await runWorker(lane, moment, cache)) === 'SIGKILL') killed += 1;
      await runWorker(lane, 0, cache);
      return killed;
    }),
  );
  expect(kills.reduce((sum, killed) => sum + killed)).toBe(CRASHES);

  const outcomes = await Promise.all(ORDERS.map(countOutcomes));
  console.log(tableOf(outcomes));
  const [markFirst, effectFirst, verified] = outcomes;
  expect(markFirst).toMatchObject({ repeated: 0 });
  expect(markFirst?.lost).toBeGreaterThan(0);
  expect(effectFirst).toMatchObject({ lost: 0 });
  expect(effectFirst?.repeated).toBeGreaterThan(0);
  expect(verified).toMatchObject({ lost: 0, repeated: 0 });
  expect(verified?.done).toBeGreaterThan(CRASHES / 10);
}, 240_000);

async function runWorker(lane: number, moment: number, cache: string): Promise<NodeJS.Signals | null> {
  const environment = { OWN_URL: own.url, BANK_URL: bank.db.url, NODE_COMPILE_CACHE: cache };
  const { code, signal, stderr } = await startCommand([String(lane), String(moment)], { script: WORKER, environment })
    .result;
  if (code !== 0 && signal !== 'SIGKILL') throw new Error(`a worker failed by itself: ${stderr}`);
  return signal;
}

interface Outcomes {
  order: string;
  /** Noted as done. */
  done: number;
  /** Noted as done, and never made. */
  lost: number;
  /** Made more than once. */
  repeated: number;
}

/** What is noted as done, against what the bank's ledger shows. */
async function countOutcomes(order: string): Promise<Outcomes> {
  const { rows: jobs } = await own.pool.query<{ id: number; done: boolean; from: number }>(
    `SELECT id, state = 'done' AS done, "from" FROM public.job WHERE worker LIKE $1 || ' %'`,
    [order],
  );
  const { rows: made } = await bank.db.pool.query<{ id: number; times: number }>(
    'SELECT (-amount)::bigint AS id, count(*) AS times FROM bank.movement WHERE amount < 0 GROUP BY amount',
  );
  const times = new Map(made.map((movement) => [movement.id, movement.times]));
  const timesOf = ({ id }: { id: number }) => times.get(id) ?? 0;
  return {
    order,
    done: jobs.filter(({ done }) => done).length,
    lost: jobs.filter((job) => job.done && timesOf(job) === 0).length,
    repeated: jobs.filter((job) => timesOf(job) > 1).length,
  };
}

function tableOf(outcomes: Outcomes[]): string {
  const lines = outcomes.map(
    ({ order, done, lost, repeated }) =>
      `${order.padEnd(24)}${String(CRASHES).padStart(8)}${String(done).padStart(11)}${String(lost).padStart(7)}${String(repeated).padStart(10)}`,
  );
  return ['order of steps           crashes  transfers   lost  repeated', ...lines].join('\n');
}

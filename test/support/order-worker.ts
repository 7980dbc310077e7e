import { hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import pg from 'pg';
import type { ReadBack } from '../../src/action/define-action.ts';
import type { PostgresBefore } from '../../src/action/kinds/postgres.ts';
import { transferAction } from './transfer.ts';

/**
 * Makes transfers in three orders of steps at once, each on accounts of its own, until it is killed: `order-worker.ts LANE MOMENT`. It kills itself
 * with SIGKILL at the moment MOMENT, of which every statement of every order has three: before it is sent, when it has been sent and nobody has
 * heard of it again, and when its answer is there. With MOMENT 0 it finishes what another has left in the middle, and ends.
 */
const [lane = '', moment = ''] = process.argv.slice(2);
const isLast = moment === '0';
const before: PostgresBefore = { rows: [] };
let passed = 0;

function pass(): void {
  passed += 1;
  if (passed === Number(moment)) process.kill(process.pid, 'SIGKILL');
}

const { query } = pg.Client.prototype;
pg.Client.prototype.query = async function (this: pg.Client, ...args: unknown[]) {
  pass();
  const answer = Reflect.apply(query, this, args);
  await setImmediate();
  pass();
  const result = await answer;
  pass();
  return result;
} as typeof query;

interface Job {
  id: number;
  state: 'open' | 'in flight' | 'done';
  from: number;
  to: number;
}

async function connect(url: string | undefined): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: 'order worker' });
  await client.connect();
  return client;
}

/** The wrong order: the note that it is done, and then the transfer. */
async function markFirst(): Promise<void> {
  const [own, bank] = await Promise.all([connect(process.env.OWN_URL), connect(process.env.BANK_URL)]);
  await forEach(own, 'done-mark first', async (job) => {
    await mark(own, job, 'done');
    await transfer(bank, job);
  });
}

/** The other wrong order: the transfer, and then the note that it is done. */
async function effectFirst(): Promise<void> {
  const [own, bank] = await Promise.all([connect(process.env.OWN_URL), connect(process.env.BANK_URL)]);
  await forEach(own, 'effect first', async (job) => {
    await transfer(bank, job);
    await mark(own, job, 'done');
  });
}

/** Intent, effect, verification; what is found in flight is verified first. */
async function verified(): Promise<void> {
  const own = await connect(process.env.OWN_URL);
  const action = transferAction();
  await forEach(own, 'intent, effect, verify', async (job) => {
    const args = { from: job.from, to: job.to, amount: String(job.id) };
    const context = { key: hash('sha256', `transfer ${job.id}`), signal: new AbortController().signal };
    const readBack = () => action.verify(args, before, undefined, context);
    let found: ReadBack['found'] = job.state === 'in flight' ? (await readBack()).found : 'nothing';
    if (found === 'nothing') {
      await mark(own, job, 'in flight');
      await action.execute(args, before, context);
      found = (await readBack()).found;
    }
    if (found !== 'effect') throw new Error(`transfer ${job.id}: found ${found}`);
    await mark(own, job, 'done');
  });
}

/** Each job that is not noted as done, in their order; none is skipped. */
async function forEach(own: pg.Client, order: string, work: (job: Job) => Promise<void>): Promise<void> {
  do {
    const { rows } = await own.query<Job>(
      `SELECT id, state, "from", "to" FROM job WHERE worker = $1 AND state <> 'done' ORDER BY id LIMIT 1`,
      [`${order} ${lane}`],
    );
    const [job] = rows;
    if (job === undefined) throw new Error(`${order}: no jobs are left`);
    await work(job);
  } while (!isLast);
  if (isLast) await own.end();
}

async function mark(own: pg.Client, { id }: Job, state: Job['state']): Promise<void> {
  await own.query('UPDATE job SET state = $2 WHERE id = $1', [id, state]);
}

/** As anybody would write it; the amount is the job's number, by which the bank's ledger can be compared with the jobs. */
async function transfer(bank: pg.Client, { id, from, to }: Job): Promise<void> {
  await bank.query(
    `UPDATE bank.account SET balance = balance + CASE id WHEN $2 THEN -$1::numeric ELSE $1::numeric END WHERE id IN ($2::bigint, $3::bigint)`,
    [id, from, to],
  );
}

await Promise.all([markFirst(), effectFirst(), verified()]);
process.exit();

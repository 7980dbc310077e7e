import { expect, test } from 'vitest';
import { allAlerts } from '../../src/batch/alerts.ts';
import { completeTask, endAttempt } from '../../src/lease/finish.ts';
import { sayAndRun } from '../support/as-person.ts';
import { type BatchOptions, loadTestBatch } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { holderOf, release } from '../support/leases.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { until } from '../support/until.ts';

const bench = leaseBench();
const load = (tasks: number, options: BatchOptions = {}) =>
  loadTestBatch(bench.db, { tasks, maxAttempts: 1, ...options });
type Lease = Awaited<ReturnType<typeof claim>>;
const claim = async (batch: string) => (await bench.worker.claim(batch)).lease;
const complete = (lease: Lease) => completeTask(bench.worker.pool, holderOf(lease), { text: 'x' }, 0);
const FAILED = {
  how: 'failed',
  failure: { kind: 'test', message: 'no' },
  final: true,
  waitUntil: undefined,
  waitingFor: undefined,
} as const;
const fail = (lease: Lease) => endAttempt(bench.worker.pool, holderOf(lease), FAILED, 0);
const alertsOf = async (batch: string) =>
  (await allAlerts(bench.db.pool)).filter(({ batchKey, kind }) => batchKey === batch && kind === 'failed tasks');

/** The same ends in a transaction of a test, by SQL. */
const COMPLETE = `SELECT madrugada.complete_task($1, $2, $3, '{}', 0)`;
const FAIL = `SELECT madrugada.end_attempt($1, $2, $3, 'failed', '{"message": "no"}', true, NULL, NULL, 0)`;
const values = ({ taskId, workerId, token }: Lease) => [taskId, workerId, token];

test('when the last task ends and some have failed, there is one alert, with their count and what to do next', async () => {
  const batch = await load(3);
  await fail(await claim(batch));
  await fail(await claim(batch));
  const before = await alertsOf(batch);
  await complete(await claim(batch));

  expect(before).toEqual([]);
  expect(await alertsOf(batch)).toMatchObject([
    {
      message: `2 of 3 tasks failed, and no other is left: madrugada status ${batch} lists them, madrugada retry KEY sends one back`,
    },
  ]);
});

test('a night without failures ends without an alert', async () => {
  const batch = await load(2);
  await complete(await claim(batch));
  await complete(await claim(batch));
  expect(await alertsOf(batch)).toEqual([]);
});

test('a task that is given back is still to come', async () => {
  const batch = await load(2);
  await fail(await claim(batch));
  await release(bench.db, await claim(batch));
  expect(await alertsOf(batch)).toEqual([]);
});

test('an end that is rolled back raises nothing', async () => {
  const batch = await load(1);
  const lease = await claim(batch);
  const { client, rollback } = await openTransaction(bench.db);
  await client.query(FAIL, values(lease));
  await client.query('SET CONSTRAINTS ALL IMMEDIATE');
  await rollback();
  expect(await alertsOf(batch)).toEqual([]);
});

for (const [first, second] of [
  [FAIL, COMPLETE],
  [COMPLETE, FAIL],
  [FAIL, FAIL],
] as const)
  test(`of the last two that end at the same moment, first ${nameOf(first)}, then ${nameOf(second)}, the second sees both`, async () => {
    const batch = await load(2);
    const [one, two] = [await claim(batch), await claim(batch)];
    const [a, b] = [await openTransaction(bench.db), await openTransaction(bench.db)];
    await a.client.query(first, values(one));
    await b.client.query(second, values(two));
    await a.client.query('SET CONSTRAINTS ALL IMMEDIATE'); // as its commit begins
    const committing = b.client.query('SET CONSTRAINTS ALL IMMEDIATE').then(() => b.commit());
    await advisoryWait();
    await a.commit();
    await committing;

    expect(await alertsOf(batch)).toHaveLength(1);
  });

test('two completions after a failure that end at the same moment raise one alert', async () => {
  const batch = await load(3);
  await fail(await claim(batch));
  const [one, two] = [await claim(batch), await claim(batch)];
  const [a, b] = [await openTransaction(bench.db), await openTransaction(bench.db)];
  await a.client.query(COMPLETE, values(one));
  await b.client.query(COMPLETE, values(two));
  await a.client.query('SET CONSTRAINTS ALL IMMEDIATE');
  const committing = b.client.query('SET CONSTRAINTS ALL IMMEDIATE').then(() => b.commit());
  await advisoryWait();
  await a.commit();
  await committing;

  expect(await alertsOf(batch)).toHaveLength(1);
});

test('completions wait for nobody while nothing has failed', async () => {
  const batch = await load(2);
  const [one, two] = [await claim(batch), await claim(batch)];
  const { client, commit } = await openTransaction(bench.db);
  await client.query(COMPLETE, values(one));
  await client.query('SET CONSTRAINTS ALL IMMEDIATE');

  expect(await complete(two)).toBe(true); // while the other has not committed
  await commit();
});

test('who sends a failed task back acknowledges the alert, and if it fails again there is another', async () => {
  const batch = await load(1);
  const lease = await claim(batch);
  await fail(lease);
  await sayAndRun(bench.db, 'SELECT madrugada.retry_task($1, NULL)', [lease.taskId]);
  const retried = await alertsOf(batch);
  await fail(await claim(batch));

  expect(retried).toMatchObject([
    { acknowledgedBy: expect.any(String), ackNote: expect.stringContaining(`${lease.key} retried`) },
  ]);
  expect((await alertsOf(batch)).map(({ acknowledgedAt }) => acknowledgedAt === null)).toEqual([false, true]);
});

test('who closes a batch and gives up what is pending is not told of it', async () => {
  const batch = await load(2);
  await bench.db.pool.query(`SELECT madrugada.stop_batch($1, 'enough')`, [batch]);
  await bench.db.pool.query('SELECT madrugada.close_batch($1, true)', [batch]);
  expect(await alertsOf(batch)).toEqual([]);
});

function nameOf(sql: string): string {
  return sql === FAIL ? 'a failure' : 'a completion';
}

function advisoryWait(): Promise<boolean> {
  return until('the second waits for the first', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory'`,
    );
    return rows.length > 0 || undefined;
  });
}

import { afterEach, expect, test } from 'vitest';
import { sayAndRun } from '../support/as-person.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { limitBatch, limitMonth, proofOf, stateOf, tend } from '../support/money.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { until } from '../support/until.ts';

const bench = leaseBench();
afterEach(() => bench.db.pool.query('DELETE FROM madrugada.month_spending'));
const FAIL = `SELECT madrugada.end_attempt($1, $2, $3, 'failed', '{"kind": "agent", "message": "no document"}', true, NULL, NULL, 0)`;
const SAY = `SELECT set_config('madrugada.by', 'Ana', true), set_config('madrugada.reason', 'by the test', true)`;

/** Waits until a backend whose statement has this in it waits for a lock of whatever kind. */
const waits = (statement: string) =>
  until(`${statement} waits`, async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND position($1 IN query) > 0`,
      [statement],
    );
    return rows.length > 0;
  });

/** A task whose only attempt is about to fail, and with it to stop its batch. */
async function lastAllowedFailure() {
  const batch = await loadTestBatch(bench.db, { tasks: 2, maxAttempts: 1 });
  await bench.db.pool.query('UPDATE madrugada.batch SET stop_after_failures = 1 WHERE batch_key = $1', [batch]);
  const { lease } = await bench.worker.claim(batch);
  return { batch, lease, holder: [lease.taskId, lease.workerId, lease.token] };
}

const retry = (taskId: number) => sayAndRun(bench.db, 'SELECT madrugada.retry_task($1, NULL) AS retried', [taskId]);

test('a person who retries a task at the moment its failure stops the batch waits for that, and gets it retried', async () => {
  const { batch, lease, holder } = await lastAllowedFailure();
  const failing = await openTransaction(bench.db);
  await failing.client.query(FAIL, holder);
  const retried = retry(lease.taskId);
  await waits('retry_task');
  await failing.commit();

  expect((await retried).rows).toEqual([{ retried: true }]);
  expect(await stateOf(bench.db, batch)).toMatchObject({ state: 'stopped' });
  expect((await taskOf(bench.db, batch)).state).toBe('pending');
});

test('a failure that would stop the batch waits for the retry of its task, and stops it then', async () => {
  const { batch, lease, holder } = await lastAllowedFailure();
  const retrying = await openTransaction(bench.db);
  await retrying.client.query(SAY);
  const { rows } = await retrying.client.query('SELECT madrugada.retry_task($1, NULL) AS retried', [lease.taskId]);
  const failing = bench.db.pool.query(FAIL, holder);
  await waits('end_attempt');
  await retrying.commit();
  await failing;

  expect(rows).toEqual([{ retried: false }]);
  expect(await stateOf(bench.db, batch)).toMatchObject({ state: 'stopped' });
});

async function failedTask() {
  const batch = await loadTestBatch(bench.db, { maxAttempts: 1 });
  const { lease } = await bench.worker.claim(batch);
  await bench.db.pool.query(FAIL, [lease.taskId, lease.workerId, lease.token]);
  return { batch, taskId: lease.taskId };
}

test('a close of a batch waits for a retry of one of its tasks, and does not close it then', async () => {
  const { batch, taskId } = await failedTask();
  const retrying = await openTransaction(bench.db);
  await retrying.client.query(SAY);
  await retrying.client.query('SELECT madrugada.retry_task($1, NULL)', [taskId]);
  const closed = sayAndRun(bench.db, 'SELECT madrugada.close_batch($1, false) AS obstacle', [batch]);
  await waits('close_batch');
  await retrying.commit();

  expect((await closed).rows).toEqual([{ obstacle: '1 tasks are neither completed nor failed' }]);
});

test('a retry waits for a close of its batch, and is refused then', async () => {
  const { batch, taskId } = await failedTask();
  const closing = await openTransaction(bench.db);
  await closing.client.query('SELECT madrugada.close_batch($1, false)', [batch]);
  const retried = retry(taskId);
  retried.catch(() => undefined); // looked at below
  await waits('retry_task');
  await closing.commit();

  await expect(retried).rejects.toThrow(`batch ${batch} is closed`);
});

/** A batch that has run out of money, one of whose tasks waits for some while another runs, and a person who raises the limits again. */
async function outOfMoney() {
  await limitMonth(bench.db, MONTH, '100');
  const batch = await loadTestBatch(bench.db, { budgetUsd: '0.000001', tasks: 2 });
  const { lease } = await bench.worker.claim(batch);
  const { lease: other } = await bench.worker.claim(batch);
  const park = `SELECT madrugada.end_attempt($1, $2, $3, 'parked', '{"message": "no money"}', false, 'infinity', 'budget', 0, 1)`;
  await bench.db.pool.query(park, [lease.taskId, lease.workerId, lease.token]);
  return { batch, running: [other.taskId, other.workerId, other.token], park };
}
const MONTH = new Date().toISOString().slice(0, 7);

/** Keeps the rows of a table from everybody until `commit`. */
async function inTheWay(table: string) {
  const transaction = await openTransaction(bench.db);
  await transaction.client.query(`SELECT FROM madrugada.${table} FOR UPDATE`);
  return transaction;
}

test('a person who raises a budget at the moment it stops the batch waits for that, and neither is given up', async () => {
  const { batch, running, park } = await outOfMoney();
  await bench.db.pool.query(park, running);
  const { commit } = await inTheWay('month_spending');
  const stopping = tend(bench.db);
  await waits('tend_budgets');
  const raising = limitBatch(bench.db, batch, { budgetUsd: '10' });
  await waits('set_batch_limits');
  await commit();
  await Promise.all([stopping, raising]);

  expect(await stateOf(bench.db, batch)).toMatchObject({ state: 'stopped' });
});

for (const [what, statement] of [
  ['completed', `SELECT madrugada.complete_task($1, $2, $3, '"answer"', 0)`],
  ['granted more money', 'SELECT madrugada.draw_allowance($1, $2, $3, 0.0000001, 0.0000001)'],
] as const)
  for (const [whose, raise, function_] of [
    ['batch', (batch: string) => limitBatch(bench.db, batch, { budgetUsd: '10' }), 'set_batch_limits'],
    ['month', () => limitMonth(bench.db, MONTH, '1000'), 'set_month_limit'],
  ] as const)
    test(`a person who raises the budget of the ${whose} while a task is being ${what} waits for that, and the count is right`, async () => {
      const { batch, running } = await outOfMoney();
      const { commit } = await inTheWay('batch_spending');
      const ending = bench.db.pool.query(statement, running);
      await waits(statement.slice(7, 28));
      const raising = raise(batch);
      await waits(function_);
      await commit();
      await Promise.all([ending, raising]);

      expect(await proofOf(bench.db, batch)).toMatchObject({ holds: true });
      const { rows } = await bench.db.pool.query(
        'SELECT drawn_usd = (SELECT coalesce(sum(allowance_usd), 0) FROM madrugada.attempt) AS "isRight" FROM madrugada.month_spending',
      );
      expect(rows).toEqual([{ isRight: true }]);
    });

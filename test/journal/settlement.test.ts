import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { retryTask } from '../../src/batch/retry-task.ts';
import { type Settling, settleDoubt } from '../../src/bill/doubts.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { type BatchOptions, kindsOf, loadTestBatch, type TestWorker, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';

const bench = journalBench();
const ANA = { by: 'ana', reason: 'by the test' };
let client: Client;

beforeAll(async () => {
  client = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'test settlement' });
});
afterAll(async () => {
  await client.end();
});

/** A task under policy hold that waits because its only call broke off. */
async function heldTask(options: BatchOptions = {}): Promise<{ batch: string; task: string; worker: TestWorker }> {
  const batch = await loadTestBatch(bench.db, { doubtPolicy: 'hold', ...options });
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.cut();
  await worker.attempt(batch, (task) => ask(task, 'one'));
  bench.provider.script = (exchange) => exchange.message('sent again');
  const { rows } = await bench.db.pool.query<{ key: string }>('SELECT key FROM madrugada.task WHERE batch_key = $1', [
    batch,
  ]);
  return { batch, task: rows[0]?.key ?? '', worker };
}

/** Settles the doubt of a held task and lets it go on. */
async function afterSettling(settling: Settling) {
  const { batch, task, worker } = await heldTask();
  await settleDoubt(client, { task, seq: 1 }, settling, ANA);
  const { ending } = await worker.attempt(batch, (task) => ask(task, 'one'));
  return { ending, kinds: await kindsOf(bench.db, batch), batch, task };
}

test('with policy hold a call settled as not charged is sent again, as if it never had been', async () => {
  expect(await afterSettling({ verdict: 'not_charged' })).toMatchObject({
    ending: 'completed',
    kinds: ['1.1 unknown', '1.2 charged'],
  });
});

test('with policy hold a call settled as charged is not paid again, and its task says what a person can do', async () => {
  const { ending, kinds, batch, task } = await afterSettling({ verdict: 'charged', usd: '0.01', payAgain: false });

  expect({ ending, kinds }).toEqual({ ending: 'parked', kinds: ['1.1 unknown'] });
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', waiting_for: 'settlement' });
  const { rows } = await bench.db.pool.query(
    'SELECT error FROM madrugada.attempt a JOIN madrugada.task t ON t.id = a.task_id WHERE t.key = $1 ORDER BY number DESC LIMIT 1',
    [task],
  );
  expect(rows).toEqual([{ error: expect.stringMatching(/settled as charged.*madrugada retry .* --pay-again-from 1/) }]);
});

test('with policy hold a call settled as charged and to be paid again is sent again', async () => {
  expect(await afterSettling({ verdict: 'charged', usd: '0.01', payAgain: true })).toMatchObject({
    ending: 'completed',
    kinds: ['1.1 unknown', '1.2 charged'],
  });
});

test('with policy pay_again a call settled as charged is paid again as before', async () => {
  const batch = await loadTestBatch(bench.db);
  const [sender, taker] = [await bench.workers.add(), await bench.workers.add()];
  bench.provider.hold();
  const attempt = await sender.start(batch, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(1);
  await bench.db.pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [attempt.lease.taskId, 'test']);
  await sender.leave();
  bench.provider.script = (exchange) => exchange.message('paid again');
  await settleDoubt(
    client,
    { task: attempt.lease.key, seq: 1 },
    { verdict: 'charged', usd: '0.01', payAgain: false },
    ANA,
  );
  const { ending } = await taker.attempt(batch, (task) => ask(task, 'one'));

  expect(ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 -', '1.2 charged']);
  exchange.message();
  await attempt.result;
  await attempt.session().settled();
});

test('the retry that the message names pays a call settled as charged again', async () => {
  const { batch, task, worker } = await heldTask();
  await settleDoubt(client, { task, seq: 1 }, { verdict: 'charged', usd: '0.01', payAgain: false }, ANA);
  await worker.attempt(batch, (task) => ask(task, 'one'));
  await retryTask(client, task, ANA, 1);

  expect((await worker.attempt(batch, (task) => ask(task, 'one'))).ending).toBe('completed');
});

test.each([
  ['not charged', { verdict: 'not_charged' }, '0'],
  ['charged', { verdict: 'charged', usd: '0.0001', payAgain: false }, '0.0001'],
] as const)('a doubt settled as %s holds no money of the budget any more', async (_, settling, spent) => {
  const { batch, task } = await heldTask({ budgetUsd: '5' });
  const money = async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT trim_scale(spent_usd) AS spent, trim_scale(drawn_usd) AS drawn, held_usd > 0 AS holds, holds AS proven
         FROM madrugada.audit_budget WHERE batch_key = $1`,
      [batch],
    );
    return rows;
  };
  expect(await money()).toMatchObject([{ spent: '0', holds: true, proven: true }]);
  await settleDoubt(client, { task, seq: 1 }, settling, ANA);
  expect(await money()).toEqual([{ spent, drawn: spent, holds: false, proven: true }]);
});

import { expect, test } from 'vitest';
import { endWorker } from '../../src/lease/worker-row.ts';
import { kindsOf, loadTestBatch, type RunningAttempt, type TestWorker, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { moveClock } from '../support/move-clock.ts';
import type { Exchange } from '../support/scripted-provider.ts';

const bench = journalBench();

interface Doubt {
  batch: string;
  /** The worker whose dispatch is in doubt, and its attempt, which has lost the lease without knowing. */
  sender: TestWorker;
  attempt: RunningAttempt;
  exchange: Exchange;
  taker: TestWorker;
}

/** A dispatch without an outcome, whose task has been taken away from its sender. */
async function dispatchInDoubt(doubtPolicy: 'pay_again' | 'hold' = 'pay_again'): Promise<Doubt> {
  const batch = await loadTestBatch(bench.db, { doubtPolicy });
  const [sender, taker] = [await bench.workers.add(), await bench.workers.add()];
  bench.provider.hold();
  const attempt = await sender.start(batch, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(1);
  await bench.db.pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [
    attempt.lease.taskId,
    'by the test',
  ]);
  bench.provider.script = (exchange) => exchange.message('paid again');
  return { batch, sender, attempt, exchange, taker };
}

/** Lets the held request go, so that the old attempt ends. */
async function letGo({ exchange, attempt }: Doubt): Promise<void> {
  exchange.message('from the old sender');
  await attempt.result;
  await attempt.session().settled();
}

test('the taker of a task whose dispatch is in doubt sends nothing, parks it and takes other work', async () => {
  const doubt = await dispatchInDoubt();
  const result = await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));

  expect(result).toMatchObject({ ending: 'parked' });
  expect(await taskOf(bench.db, doubt.batch)).toMatchObject({ state: 'pending', waiting_for: 'doubt', attempts: 1 }); // the lost one
  expect(await doubt.taker.tryClaim(doubt.batch)).toBeUndefined();
  expect(bench.provider.requestCount).toBe(1);
  await letGo(doubt);
});

test('one second before deadline and margin have passed, a doubt is still not paid again', async () => {
  const doubt = await dispatchInDoubt();
  await moveClock(bench.db, '600 seconds');
  await moveClock(bench.db, '29 seconds');
  const result = await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));
  await moveClock(bench.db, '-629 seconds');

  expect(result.ending).toBe('parked');
  expect(bench.provider.requestCount).toBe(1);
  await letGo(doubt);
});

test('when deadline and margin have passed, the parked task is claimable and its doubt is paid again', async () => {
  const doubt = await dispatchInDoubt();
  const parked = await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));
  await moveClock(bench.db, '631 seconds');
  const result = await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));
  await moveClock(bench.db, '-631 seconds');

  expect([parked.ending, result.ending]).toEqual(['parked', 'completed']);
  expect(await kindsOf(bench.db, doubt.batch)).toEqual(['1.1 -', '1.2 charged']);
  await letGo(doubt);
});

test('a doubt is paid again at once when its sender is known to have ended', async () => {
  const doubt = await dispatchInDoubt();
  await doubt.sender.leave();
  const result = await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));

  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.db, doubt.batch)).toEqual(['1.1 -', '1.2 charged']);
  await letGo(doubt);
});

test('a worker is not taken for dead while one of its backends may still commit', async () => {
  const doubt = await dispatchInDoubt();
  const ended = await endWorker(doubt.taker.pool, doubt.sender.id, 'its process is gone');
  const result = await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));

  expect([ended, result.ending]).toEqual([false, 'parked']);
  expect(bench.provider.requestCount).toBe(1);
  await letGo(doubt);
});

test('a late outcome of the old sender wakes the parked task and is used: nothing is paid again', async () => {
  const doubt = await dispatchInDoubt();
  await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));
  await letGo(doubt);
  const result = await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));

  expect(result).toMatchObject({ ending: 'completed', replayedCalls: 1 });
  expect((await taskOf(bench.db, doubt.batch)).result).toBe('from the old sender');
  expect(bench.provider.requestCount).toBe(1);
});

test('with doubt policy hold nothing is paid again: not after the deadline, not after the sender’s death', async () => {
  const doubt = await dispatchInDoubt('hold');
  const first = await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));
  await moveClock(bench.db, '2 days');
  const afterDeadline = await doubt.taker.tryClaim(doubt.batch);
  await moveClock(bench.db, '-2 days');
  await doubt.sender.leave();
  await bench.db.pool.query('SELECT madrugada.wake_task($1)', [doubt.attempt.lease.taskId]);
  const second = await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));

  expect([first.ending, afterDeadline, second.ending]).toEqual(['parked', undefined, 'parked']);
  expect(await taskOf(bench.db, doubt.batch)).toMatchObject({
    waiting_for: 'settlement',
    not_before: Number.POSITIVE_INFINITY,
  });
  expect(bench.provider.requestCount).toBe(1);
  await letGo(doubt);
});

test('with doubt policy hold a dispatch that broke off is not repeated even by its own sender', async () => {
  const batch = await loadTestBatch(bench.db, { doubtPolicy: 'hold' });
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.cut();
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result.ending).toBe('parked');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
  expect(await taskOf(bench.db, batch)).toMatchObject({ waiting_for: 'settlement' });
  expect(bench.provider.requestCount).toBe(1);
});

test('with doubt policy hold a late charged outcome settles the doubt and the task goes on', async () => {
  const doubt = await dispatchInDoubt('hold');
  await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));
  await letGo(doubt);
  const result = await doubt.taker.attempt(doubt.batch, (task) => ask(task, 'one'));

  expect(result.ending).toBe('completed');
  expect(bench.provider.requestCount).toBe(1);
});

test('the database itself refuses a second dispatch while the first is in doubt, whatever the writer believes', async () => {
  const doubt = await dispatchInDoubt();
  const { lease } = await doubt.taker.claim(doubt.batch);
  const insert = `
    INSERT INTO madrugada.call_intent (batch_key, task_id, seq, dispatch, scope, request_sha256, occurrence, attempt, worker_id, slot, lease_token,
      after_no, method, path, request, tag, deadline_at)
    VALUES ($1, $2, 1, 2, '', sha256('x'), 1, $3, $4, 's', $3, 0, 'POST', '/', 'x', 't', now())`;
  const { rowCount } = await doubt.taker.pool.query(insert, [doubt.batch, lease.taskId, lease.token, lease.workerId]);

  expect(rowCount).toBe(0);
  await letGo(doubt);
});

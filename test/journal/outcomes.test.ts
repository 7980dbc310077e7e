import { expect, test } from 'vitest';
import { dispatchesOf, kindsOf, loadTestBatch, type RunningAttempt, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { moveClock } from '../support/move-clock.ts';
import { stallCommits } from '../support/stalled-commit.ts';
import { until } from '../support/until.ts';

const bench = journalBench();

async function takeAway({ lease }: RunningAttempt): Promise<void> {
  await bench.db.pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [lease.taskId, 'by the test']);
}

async function insertOutcome(batch: string, dispatch: number, kind: string): Promise<void> {
  const { id } = await taskOf(bench.db, batch);
  await bench.db.pool.query(
    `INSERT INTO madrugada.call_outcome (batch_key, task_id, seq, dispatch, kind, status, response, response_headers)
     VALUES ($1, $2, 1, $3, $4, 200, 'late', '{}')`,
    [batch, id, dispatch, kind],
  );
}

test('a charged outcome is recorded although the lease was lost while it was on its way', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.hold();
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(1);
  await takeAway(attempt);
  exchange.message();

  expect((await attempt.result).ending).toBe('lost');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('a charged outcome is recorded although its attempt was ended by its worker in the meantime', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.hold();
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(1);
  attempt.session().end({ kind: 'lost', message: 'the heartbeat says so' });
  expect((await attempt.result).ending).toBe('lost');
  exchange.message();
  await attempt.session().settled();

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('an attempt that is told to stop is given back only when its call in flight is recorded', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.hold();
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(1);
  attempt.session().end({ kind: 'released', message: 'the worker is stopping' });
  const { state } = await taskOf(bench.db, batch);
  exchange.message();

  expect(state).toBe('running');
  expect((await attempt.result).ending).toBe('released');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0 });
});

test('the code does not get an answer before its outcome is committed', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const outcomes = await stallCommits(bench.db, 'call_outcome', batch);
  let hasAnswer = false;
  const attempt = await worker.start(batch, async (task) => {
    await ask(task, 'one');
    hasAnswer = true;
  });
  await outcomes.stalled();
  const hadAnswer = hasAnswer;
  await outcomes.release();
  await attempt.result;

  expect([hadAnswer, hasAnswer]).toEqual([false, true]);
});

test('a late charged outcome finds room beside the unknown one of the same dispatch, and answers the call', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  bench.provider.script = (exchange) => exchange.cut();
  await worker.attempt(batch, (task) => ask(task, 'one'));
  await insertOutcome(batch, 1, 'charged');

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown', '1.1 charged']);
  expect((await dispatchesOf(bench.db, batch)).map((row) => row.answers)).toEqual([false, true]);
});

test('of two charged dispatches of one call the first recorded answers it; the second is kept, and answers nothing', async () => {
  const batch = await loadTestBatch(bench.db);
  const [slow, taker] = [await bench.workers.add(), await bench.workers.add()];
  bench.provider.hold();
  const first = await slow.start(batch, (task) => ask(task, 'one'));
  const held = await bench.provider.arrival(1);
  await takeAway(first);
  await moveClock(bench.db, '11 minutes'); // past the dispatch's deadline and 30 s
  bench.provider.script = (exchange) => exchange.message('from the second dispatch');
  const second = await taker.attempt(batch, (task) => ask(task, 'one'));
  held.message('from the first dispatch');
  await first.result;
  await until('the late outcome is recorded', async () => (await kindsOf(bench.db, batch)).includes('1.1 charged'));
  await moveClock(bench.db, '-11 minutes');

  expect(second.ending).toBe('completed');
  expect((await dispatchesOf(bench.db, batch)).map(({ dispatch, kind, answers }) => [dispatch, kind, answers])).toEqual(
    [
      [1, 'charged', false],
      [2, 'charged', true],
    ],
  );
  expect((await taskOf(bench.db, batch)).result).toBe('from the second dispatch');
});

test('two charged outcomes of one call that are committed at the same time both stay, and one answers', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  bench.provider.script = (exchange) => exchange.cut();
  await worker.attempt(batch, (task) => ask(task, 'one'));
  const outcomes = await stallCommits(bench.db, 'call_outcome', batch);
  const other = insertOutcome(batch, 2, 'charged');
  await outcomes.stalled();
  bench.provider.script = (exchange) => exchange.message();
  const { id } = await taskOf(bench.db, batch);
  const rival = bench.workers.add().then(async (rival) => {
    const lease = { batchKey: batch, taskId: id, key: 'k', slot: 's', workerId: rival.id, token: 1 };
    return rival.env.writer.writeOutcome({
      ...{ lease, seq: 1, dispatch: 1, kind: 'charged', status: 200, error: undefined, shown: false },
      ...{ providerRequestId: 'r', messageId: 'm', responseHeaders: {}, response: Buffer.from('early') },
      ...{ inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWrite5mTokens: 0, cacheWrite1hTokens: 0 },
      costUsd: '1',
    });
  });
  await until('the second waits for the first', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid' AND query LIKE '%call_outcome%'`,
    );
    return rows.length > 0;
  });
  await outcomes.release();
  await other;

  expect(await rival).toMatchObject({ answers: false });
  const { rows } = await bench.db.pool.query(
    `SELECT dispatch, answers FROM madrugada.call_outcome WHERE batch_key = $1 AND kind = 'charged' ORDER BY dispatch`,
    [batch],
  );
  expect(rows).toEqual([
    { dispatch: 1, answers: false },
    { dispatch: 2, answers: true },
  ]);
});

import Big from 'big.js';
import { afterEach, expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { openAlerts } from '../../src/batch/alerts.ts';
import { monthMoney } from '../../src/batch/budget.ts';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, fetchBody, fetchMessage, journalBench } from '../support/journal-bench.ts';
import { takeAway } from '../support/leases.ts';
import { limitBatch, limitMonth, proofOf, stateOf, tend, worstCasesOf } from '../support/money.ts';
import { until } from '../support/until.ts';

const bench = journalBench();
afterEach(() => bench.db.pool.query('DELETE FROM madrugada.month_spending'));
/** What the scripted provider's answer costs. */
const COST = '0.00011';
/** Enough for any call of these tests. */
const PLENTY = '100';

/** What a call of the tests may cost at most: as the journal says of one that was sent. */
async function worstCase(): Promise<string> {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, (task) => ask(task, 'question'));
  return (await worstCasesOf(bench.db, batch))[0]?.toFixed() ?? '';
}

async function alertKinds(batch: string): Promise<string[]> {
  return (await openAlerts(bench.db.pool)).filter(({ batchKey }) => batchKey === batch).map(({ kind }) => kind);
}

test('while a call is under way its worst case is held, and afterwards what it cost is spent', async () => {
  const batch = await loadTestBatch(bench.db, { budgetUsd: PLENTY });
  const worker = await bench.workers.add();
  bench.provider.hold();
  const attempt = await worker.start(batch, (task) => ask(task, 'question'));
  const exchange = await bench.provider.arrival(1);
  const during = await proofOf(bench.db, batch);
  exchange.message();
  await attempt.result;
  const after = await proofOf(bench.db, batch);

  const [worst] = await worstCasesOf(bench.db, batch);
  expect(during).toMatchObject({ spent: '0', held: worst?.toFixed(), holds: true });
  expect(Number(during.drawn)).toBeGreaterThanOrEqual(Number(during.held));
  expect(after).toMatchObject({ spent: COST, held: '0', drawn: COST, holds: true });
});

test('a call that may cost more than is left is not sent: its task waits for money, and uses up no attempt', async () => {
  const batch = await loadTestBatch(bench.db, { budgetUsd: '0.000001' });
  const worker = await bench.workers.add();
  const result = await worker.attempt(batch, (task) => ask(task, 'question'));

  expect(result).toMatchObject({
    ending: 'parked',
    message: expect.stringContaining('the budget of the batch has US$ 0.000001 left'),
  });
  expect(bench.provider.requestCount).toBe(0);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', waiting_for: 'budget', attempts: 0 });
  expect(await proofOf(bench.db, batch)).toMatchObject({ drawn: '0', holds: true });
});

test('a budget that holds one more call but not two sends one: the other waits, and goes out when the first has cost less', async () => {
  const worst = await worstCase();
  bench.provider.forget();
  const batch = await loadTestBatch(bench.db, { budgetUsd: new Big(worst).times('1.5').toFixed() });
  const worker = await bench.workers.add();
  bench.provider.hold();
  const attempt = await worker.start(batch, (task) => Promise.all([ask(task, 'question'), ask(task, 'questiom')]));
  const first = await bench.provider.arrival(1);
  const held = (await proofOf(bench.db, batch)).held;
  const sent = bench.provider.requestCount;
  first.message();
  (await bench.provider.arrival(2)).message();

  expect([held, sent]).toEqual([worst, 1]);
  expect((await attempt.result).ending).toBe('completed');
});

test('when nothing can go on with what is left, the batch is stopped, and says why', async () => {
  const batch = await loadTestBatch(bench.db, { budgetUsd: '0.000001', tasks: 3 });
  const worker = await bench.workers.add();
  await worker.attempt(batch, (task) => ask(task, 'question'));
  const next = await worker.tryClaim(batch);
  await tend(bench.db);

  expect(next).toBeUndefined(); // no new task begins while one that has begun waits for money
  expect(await stateOf(bench.db, batch)).toEqual({
    state: 'stopped',
    reason: expect.stringContaining('the budget of the batch is used up: US$ 0.000001 are left'),
  });
  expect(await alertKinds(batch)).toEqual(['budget']);
});

test('a batch whose waiting task is awake again, or runs, is not stopped for lack of money', async () => {
  const worst = await worstCase();
  const batch = await loadTestBatch(bench.db, { budgetUsd: worst, tasks: 2 });
  const worker = await bench.workers.add();
  bench.provider.forget();
  bench.provider.hold();
  const first = await worker.start(batch, (task) => ask(task, 'question'));
  const exchange = await bench.provider.arrival(1);
  const other = await bench.workers.add();
  await other.attempt(batch, (task) => ask(task, 'question'));
  await tend(bench.db);
  const whileOneRuns = (await stateOf(bench.db, batch)).state;
  exchange.message();
  await first.result;

  expect(whileOneRuns).toBe('open');
  expect(await taskOf(bench.db, batch, 2)).toMatchObject({ state: 'pending', waiting_for: 'budget' }); // what was spent is missing now
});

test('money that a finished task gives back wakes the one that waits for it', async () => {
  const worst = await worstCase();
  const batch = await loadTestBatch(bench.db, { budgetUsd: new Big(worst).plus(COST).toFixed(), tasks: 2 });
  const worker = await bench.workers.add();
  const other = await bench.workers.add();
  bench.provider.forget();
  bench.provider.hold();
  const first = await worker.start(batch, (task) => ask(task, 'question'));
  const exchange = await bench.provider.arrival(1);
  await other.attempt(batch, (task) => ask(task, 'question'));
  const waiting = (await taskOf(bench.db, batch, 2)).waiting_for;
  exchange.message();
  await first.result;
  const woken = await taskOf(bench.db, batch, 2);
  bench.provider.script = (exchange) => exchange.message();
  const second = await other.attempt(batch, (task) => ask(task, 'question'));

  expect([waiting, woken.waiting_for]).toEqual(['budget', null]);
  expect(second.ending).toBe('completed');
  expect(await proofOf(bench.db, batch)).toMatchObject({ spent: '0.00022', drawn: '0.00022', holds: true });
});

test('raising the budget wakes the tasks that wait for it', async () => {
  const batch = await loadTestBatch(bench.db, { budgetUsd: '0.000001' });
  const worker = await bench.workers.add();
  await worker.attempt(batch, (task) => ask(task, 'question'));
  await limitBatch(bench.db, batch, { budgetUsd: PLENTY });
  const result = await worker.attempt(batch, (task) => ask(task, 'question'));

  expect(result.ending).toBe('completed');
});

test('replayed calls cost nothing: a second attempt draws only for what it asks anew', async () => {
  const batch = await loadTestBatch(bench.db, { budgetUsd: PLENTY });
  const worker = await bench.workers.add();
  let runs = 0;
  const result = await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    runs += 1;
    throw new Error('the program breaks here');
  });
  const afterFailure = await proofOf(bench.db, batch);
  const second = await worker.attempt(batch, async (task) => [await ask(task, 'one'), await ask(task, 'two')]);

  expect([result.ending, second.ending, runs]).toEqual(['failed', 'completed', 1]);
  expect(afterFailure).toMatchObject({ spent: COST, drawn: COST }); // the spending of a failed attempt counts
  expect(await proofOf(bench.db, batch)).toMatchObject({ spent: '0.00022', drawn: '0.00022', holds: true });
});

test('an attempt that is lost with a call under way leaves its worst case held, and nothing more', async () => {
  const batch = await loadTestBatch(bench.db, { budgetUsd: PLENTY });
  const worker = await bench.workers.add();
  bench.provider.hold();
  const attempt = await worker.start(batch, async (task) => [await ask(task, 'one'), await ask(task, 'two')]);
  (await bench.provider.arrival(1)).message();
  const second = await bench.provider.arrival(2);
  await takeAway(bench.db, attempt.task.taskId);
  const lost = await proofOf(bench.db, batch);
  attempt.session().end({ kind: 'lost', message: 'by the test' });
  second.message();
  await attempt.result;
  await attempt.session().settled();
  const late = await proofOf(bench.db, batch);

  const worst = (await worstCasesOf(bench.db, batch))[1];
  expect(lost).toMatchObject({ spent: COST, held: worst?.toFixed(), holds: true });
  expect(Number(lost.drawn)).toBeCloseTo(Number(COST) + Number(lost.held), 12);
  expect(late).toMatchObject({ spent: '0.00022', held: '0', drawn: '0.00022', holds: true });
});

test('what a dead writer settled without saying so is found by looking after budgets', async () => {
  const batch = await loadTestBatch(bench.db, { budgetUsd: PLENTY });
  const worker = await bench.workers.add();
  bench.provider.hold();
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(1);
  await takeAway(bench.db, attempt.task.taskId);
  const { taskId } = attempt.lease;
  await bench.db.pool.query(
    `INSERT INTO madrugada.call_outcome (batch_key, task_id, seq, dispatch, kind, answers) VALUES ($1, $2, 1, 1, 'refused', false)`,
    [batch, taskId],
  );
  const before = await proofOf(bench.db, batch);
  await tend(bench.db);
  const after = await proofOf(bench.db, batch);
  exchange.refuse(400, 'invalid_request_error');
  attempt.session().end({ kind: 'lost', message: 'by the test' });
  await attempt.result;

  expect(before).toMatchObject({ wrongAttempts: 1, holds: false });
  expect(after).toMatchObject({ drawn: '0', held: '0', holds: true });
});

test('a task that may spend no more fails for good, and says what a person can do', async () => {
  const worst = await worstCase();
  const batch = await loadTestBatch(bench.db);
  await limitBatch(bench.db, batch, { taskBudgetUsd: worst });
  const worker = await bench.workers.add();
  bench.provider.forget();
  const result = await worker.attempt(batch, async (task) => {
    await ask(task, 'question');
    await ask(task, 'questiom');
  });

  expect(result).toMatchObject({ ending: 'failed', isFinal: true, message: expect.stringContaining('--task USD') });
  expect(bench.provider.requestCount).toBe(1);
});

test('what earlier attempts of a task have spent counts towards what the task may spend', async () => {
  const worst = await worstCase();
  const batch = await loadTestBatch(bench.db);
  await limitBatch(bench.db, batch, { taskBudgetUsd: worst });
  const worker = await bench.workers.add();
  bench.provider.forget();
  await worker.attempt(batch, async (task) => {
    await ask(task, 'question');
    throw new Error('the program breaks here');
  });
  const second = await worker.attempt(batch, async (task) => {
    await ask(task, 'question');
    await ask(task, 'questiom');
  });

  expect(second).toMatchObject({
    ending: 'failed',
    isFinal: true,
    message: expect.stringContaining(`US$ ${COST} of the US$ ${worst}`),
  });
});

test('a month’s limit holds for all batches together', async () => {
  const month = new Date().toISOString().slice(0, 7);
  await limitMonth(bench.db, month, null);
  const spent = (await monthMoney(bench.db.pool))[0]?.drawnUsd ?? '';
  await limitMonth(bench.db, month, new Big(spent).plus('0.000001').toFixed());
  const [one, two] = [await loadTestBatch(bench.db), await loadTestBatch(bench.db, { budgetUsd: PLENTY })];
  const worker = await bench.workers.add();
  const results = [
    await worker.attempt(one, (task) => ask(task, 'q')),
    await worker.attempt(two, (task) => ask(task, 'q')),
  ];

  for (const result of results)
    expect(result).toMatchObject({
      ending: 'parked',
      message: expect.stringContaining(`the budget of the month ${month}`),
    });
  expect(bench.provider.requestCount).toBe(0);
});

test('a limit that is set during the night counts what was spent before it', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 });
  const worker = await bench.workers.add();
  await worker.attempt(batch, (task) => ask(task, 'question'));
  bench.provider.hold();
  const running = await worker.start(batch, (task) => ask(task, 'question'));
  const exchange = await bench.provider.arrival(2);
  await limitBatch(bench.db, batch, { budgetUsd: PLENTY });
  const counted = await proofOf(bench.db, batch);
  exchange.message();
  await running.result;

  expect(counted.drawn).toBe(COST);
  expect(await proofOf(bench.db, batch)).toMatchObject({ drawn: '0.00022', holds: true });
});

test('more than may be spent in ten minutes stops the batch', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 3 });
  await limitBatch(bench.db, batch, { velocityUsd: '0.00015' });
  const worker = await bench.workers.add();
  await worker.attempt(batch, (task) => ask(task, 'question'));
  await tend(bench.db);
  const afterOne = (await stateOf(bench.db, batch)).state;
  await worker.attempt(batch, (task) => ask(task, 'question'));
  await tend(bench.db);

  expect(afterOne).toBe('open');
  expect(await stateOf(bench.db, batch)).toEqual({
    state: 'stopped',
    reason: 'US$ 0.00022 were spent or held within ten minutes, and its limit is US$ 0.00015',
  });
  expect(await alertKinds(batch)).toEqual(['velocity']);
});

test('what is held for calls under way counts as spent in these ten minutes', async () => {
  const batch = await loadTestBatch(bench.db);
  await limitBatch(bench.db, batch, { velocityUsd: '0.00015' });
  const worker = await bench.workers.add();
  bench.provider.hold();
  const attempt = await worker.start(batch, (task) => ask(task, 'question'));
  const exchange = await bench.provider.arrival(1);
  await tend(bench.db);
  const { reason } = await stateOf(bench.db, batch);
  exchange.message();
  await attempt.result;

  const [worst] = await worstCasesOf(bench.db, batch);
  expect(reason).toContain(`US$ ${worst?.toFixed()} were spent or held`);
});

test('refused calls release what was held for them', async () => {
  const batch = await loadTestBatch(bench.db, { budgetUsd: PLENTY });
  const worker = await bench.workers.add({ limits: { maxDispatches: 2 } });
  bench.provider.script = (exchange) => exchange.refuse(529, 'overloaded_error', { 'retry-after': '0.001' });
  await worker.attempt(batch, async (task) => (await fetchMessage(task, 'one')).status);

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused', '1.2 refused']);
  expect(await proofOf(bench.db, batch)).toMatchObject({ spent: '0', held: '0', drawn: '0', holds: true });
});

test('a dispatch in doubt keeps its hold beside the one that is paid for it again', async () => {
  const batch = await loadTestBatch(bench.db, { budgetUsd: PLENTY });
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => (exchange.number === 1 ? exchange.cut() : exchange.message());
  await worker.attempt(batch, (task) => ask(task, 'question'));

  const [worst] = await worstCasesOf(bench.db, batch);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown', '1.2 charged']);
  expect(await proofOf(bench.db, batch)).toMatchObject({ spent: COST, held: worst?.toFixed(), holds: true });
});

test('a call that asks for more output than its batch allows is sent with what is allowed, and replays as it was asked', async () => {
  const batch = await loadTestBatch(bench.db, { limits: { maxOutputTokens: 7 } });
  const worker = await bench.workers.add();
  let runs = 0;
  const run = async (task: Task) => {
    await ask(task, 'question');
    runs += 1;
    if (runs === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  const second = await worker.attempt(batch, run);

  expect(second).toMatchObject({ ending: 'completed', replayedCalls: 1 });
  expect(JSON.parse(bench.provider.exchanges[0]?.body.toString() ?? '')).toMatchObject({ max_tokens: 7 });
  expect(bench.provider.requestCount).toBe(1);
});

for (const [what, body, words] of [
  ['a model without a known price', { model: 'brand-new', max_tokens: 5, messages: [] }, 'brand-new is not known'],
  ['no model', { messages: [] }, 'names no model'],
] as const)
  test(`a call with ${what} is not sent: its task fails for good, and says what to do`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add();
    const result = await worker.attempt(batch, (task) => fetchBody(task, JSON.stringify(body)));

    expect(result).toMatchObject({ ending: 'failed', isFinal: true, message: expect.stringContaining(words) });
    expect([bench.provider.requestCount, await kindsOf(bench.db, batch)]).toEqual([0, []]);
  });

test('what a dispatch in doubt holds is not spent on paying it again: there must be money for both', async () => {
  const worst = await worstCase();
  bench.provider.forget();
  const batch = await loadTestBatch(bench.db, { budgetUsd: new Big(worst).times('1.5').toFixed() });
  const worker = await bench.workers.add({ limits: { maxDispatches: 2 } });
  bench.provider.script = (exchange) => exchange.cut();
  const result = await worker.attempt(batch, (task) => ask(task, 'question'));

  expect(result).toMatchObject({ ending: 'parked', message: expect.stringContaining('the budget of the batch') });
  expect(bench.provider.requestCount).toBe(1);
});

test('many tasks at once, from two workers, never draw more than there is', async () => {
  const worst = new Big(await worstCase());
  const budgetUsd = worst.times(5).toFixed();
  const batch = await loadTestBatch(bench.db, { budgetUsd, tasks: 40 });
  const workers = [await bench.workers.add(), await bench.workers.add()];
  const run = async (worker: (typeof workers)[number]) => {
    for (;;) {
      const task = await worker.tryClaim(batch);
      if (task === undefined) return;
      const { taskId, key, leaseToken: token } = task;
      const lease = { batchKey: batch, taskId, key, slot: worker.slot, workerId: worker.id, token };
      await worker.run(task, lease, async (task) => [await ask(task, 'one'), await ask(task, 'two')]).result;
    }
  };
  await Promise.all(workers.flatMap((worker) => [run(worker), run(worker), run(worker)]));
  await until('the money is used up, or every task is done', async () => {
    await tend(bench.db);
    await Promise.all(workers.map(run));
    return (
      (await stateOf(bench.db, batch)).state === 'stopped' || (await taskOf(bench.db, batch, 40)).state === 'completed'
    );
  });

  const proof = await proofOf(bench.db, batch);
  expect(proof).toMatchObject({ wrongAttempts: 0, holds: true });
  expect(Number(proof.spent)).toBeLessThanOrEqual(Number(budgetUsd));
  const { rows } = await bench.db.pool.query(
    `SELECT count(*)::integer AS stuck FROM madrugada.task WHERE batch_key = $1 AND state = 'running'`,
    [batch],
  );
  expect(rows).toEqual([{ stuck: 0 }]);
});

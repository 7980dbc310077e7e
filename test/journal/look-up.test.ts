import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { retryTask } from '../../src/batch/retry-task.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { type BatchOptions, kindsOf, loadTestBatch, type TestWorker, taskOf } from '../support/attempts.ts';
import { ask, journalBench, question } from '../support/journal-bench.ts';
import { takeAway } from '../support/leases.ts';
import { proofOf } from '../support/money.ts';
import { moveClock } from '../support/move-clock.ts';
import { type Exchange, messageOf, type Script, streamEvents } from '../support/scripted-provider.ts';

const bench = journalBench();
const LOOK_UP = { lookUpPath: '/dispatches/{tag}' };
/** What the scripted provider's answer costs. */
const COST = '0.00011';

const askOne = (task: Task) => ask(task, 'one');

/** Does one thing with what is sent, another with what is looked up. */
function provide(onSent: Script, onLookUp: Script): void {
  bench.provider.script = (exchange) => (exchange.method === 'GET' ? onLookUp(exchange) : onSent(exchange));
}

const sent = () => bench.provider.exchanges.filter(({ method }) => method === 'POST');
const lookedUp = () => bench.provider.exchanges.filter(({ method }) => method === 'GET');

/** The answer to the first request, as a look-up gives it. */
function found(exchange: Exchange, text = 'found'): void {
  respondState(exchange, 'answered', JSON.stringify(messageOf(1, text)), {
    'content-type': 'application/json',
    'x-dispatch-status': '200',
    'x-dispatch-cost-usd': COST,
  });
}

function respondState(exchange: Exchange, state: string, body = '{}', headers: Record<string, string> = {}): void {
  exchange.respond(200, body, { 'request-id': 'req_1', 'x-dispatch-state': state, ...headers });
}

/** A dispatch without an outcome, whose sender is known to have ended; `letGo` brings its answer all the same. */
async function doubtOfTheDead(
  options: BatchOptions = {},
): Promise<{ batch: string; taker: TestWorker; letGo: () => Promise<void> }> {
  const batch = await loadTestBatch(bench.db, options);
  const sender = await bench.workers.add();
  bench.provider.hold();
  const attempt = await sender.start(batch, askOne);
  const exchange = await bench.provider.arrival(1);
  await takeAway(bench.db, attempt.lease.taskId);
  await sender.leave();
  return {
    batch,
    taker: await bench.workers.add({ ...LOOK_UP, limits: { maxWaitMs: 500 } }),
    async letGo() {
      exchange.message('found');
      await attempt.result;
      await attempt.session().settled();
    },
  };
}

test('a lost answer that the look-up has is recovered by the next attempt, and nothing is sent again', async () => {
  const { batch, taker, letGo } = await doubtOfTheDead();
  provide((exchange) => exchange.message('paid again'), found);
  const result = await taker.attempt(batch, askOne);

  expect(result).toMatchObject({ ending: 'completed', replayedCalls: 1 });
  expect((await taskOf(bench.db, batch)).result).toBe('found');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 recovered']);
  expect([sent().length, lookedUp().length]).toEqual([1, 1]);
  expect(lookedUp()[0]).toMatchObject({
    path: `/dispatches/${sent()[0]?.headers['x-madrugada-tag']}`,
    headers: { 'x-api-key': 'dummy', authorization: 'Bearer dummy' },
  });
  await letGo();
});

test('the late original of a recovered answer is kept, and counts once', async () => {
  const { batch, taker, letGo } = await doubtOfTheDead();
  provide((exchange) => exchange.message('paid again'), found);
  await taker.attempt(batch, askOne);
  await letGo();

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 recovered', '1.1 charged']);
  const { rows } = await bench.db.pool.query(
    'SELECT kind, answers, trim_scale(cost_usd) AS usd FROM madrugada.audit_journal_charges WHERE batch_key = $1',
    [batch],
  );
  expect(rows).toEqual([{ kind: 'charged', answers: true, usd: COST }]);
  expect(Number((await taskOf(bench.db, batch)).spent_usd)).toBe(Number(COST));
});

test('a dispatch that the look-up knows as refused is sent once more', async () => {
  const { batch, taker, letGo } = await doubtOfTheDead();
  const error = JSON.stringify({ type: 'error', error: { type: 'overloaded_error', message: 'too much' } });
  provide(
    (exchange) => exchange.message(),
    (exchange) => respondState(exchange, 'refused', error, { 'x-dispatch-status': '529' }),
  );
  const result = await taker.attempt(batch, askOne);

  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused', '1.2 charged']);
  await letGo();
});

test('a dispatch that was not received is sent once more', async () => {
  const { batch, taker, letGo } = await doubtOfTheDead();
  provide(
    (exchange) => exchange.message(),
    (exchange) => respondState(exchange, 'not-received'),
  );
  const result = await taker.attempt(batch, askOne);

  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 not_sent', '1.2 charged']);
  await letGo();
});

test('a dispatch in progress is looked up again until it is answered', async () => {
  const { batch, taker, letGo } = await doubtOfTheDead();
  provide(
    (exchange) => exchange.message('paid again'),
    (exchange) =>
      lookedUp().length < 3 ? respondState(exchange, 'in-progress', '{}', { 'retry-after-ms': '5' }) : found(exchange),
  );
  const result = await taker.attempt(batch, askOne);

  expect(result.ending).toBe('completed');
  expect([sent().length, lookedUp().length]).toEqual([1, 3]);
  await letGo();
});

test('a dispatch that stays in progress for longer than a slot waits parks its task', async () => {
  const { batch, taker, letGo } = await doubtOfTheDead();
  provide(
    (exchange) => exchange.message('paid again'),
    (exchange) => respondState(exchange, 'in-progress', '{}', { 'retry-after': '1' }),
  );
  const result = await taker.attempt(batch, askOne);

  expect(result).toMatchObject({ ending: 'parked', message: expect.stringContaining('the provider is still at work') });
  expect(sent().length).toBe(1);
  await letGo();
});

test.for<[string, Script, string]>([
  ['fails', (exchange) => exchange.cut(), 'the look-up failed: '],
  ['is not found', (exchange) => exchange.refuse(404, 'not_found_error'), 'answered with HTTP 404'],
  ['says nothing', (exchange) => exchange.message(), 'did not say what became of it'],
  [
    'gives half a stream for an answer',
    (exchange) =>
      respondState(exchange, 'answered', streamEvents(1, 'x').slice(0, 3).join(''), {
        'content-type': 'text/event-stream',
        'x-dispatch-status': '200',
      }),
    'which the response it gives is not',
  ],
])(
  'when the look-up %s, nothing is sent again: the task is parked, and goes on when it answers',
  async ([, onLookUp, why]) => {
    const { batch, taker, letGo } = await doubtOfTheDead();
    provide((exchange) => exchange.message('paid again'), onLookUp);
    const parked = await taker.attempt(batch, askOne);
    const meanwhile = await taker.tryClaim(batch);
    provide((exchange) => exchange.message('paid again'), found);
    await moveClock(bench.db, '61 seconds');
    const result = await taker.attempt(batch, askOne);
    await moveClock(bench.db, '-61 seconds');

    expect(parked).toMatchObject({ ending: 'parked', message: expect.stringContaining(why) });
    expect([meanwhile, result.ending]).toEqual([undefined, 'completed']);
    expect(sent().length).toBe(1);
    await letGo();
  },
);

for (const [how, fail] of [
  ['breaks off', (exchange) => exchange.cut()],
  ['is answered with HTTP 503', (exchange) => exchange.refuse(503, 'overloaded_error')],
] as [string, Script][])
  test(`a look-up that ${how} a few times is tried again within the attempt, which then goes on`, async () => {
    const { batch, letGo } = await doubtOfTheDead();
    const taker = await bench.workers.add(LOOK_UP);
    provide(
      (exchange) => exchange.message('paid again'),
      (exchange) => (lookedUp().length < 4 ? fail(exchange) : found(exchange)),
    );
    const result = await taker.attempt(batch, askOne);

    expect(result.ending).toBe('completed');
    expect([sent().length, lookedUp().length]).toEqual([1, 4]);
    await letGo();
  });

test('a look-up that goes on failing is given up after a few tries, and one that knows nothing is not repeated', async () => {
  const { batch, letGo } = await doubtOfTheDead();
  const taker = await bench.workers.add(LOOK_UP);
  provide(
    (exchange) => exchange.message('paid again'),
    (exchange) => exchange.cut(),
  );
  const failing = await taker.attempt(batch, askOne);
  const tries = lookedUp().length;
  provide(
    (exchange) => exchange.message('paid again'),
    (exchange) => exchange.refuse(404, 'not_found_error'),
  );
  await moveClock(bench.db, '61 seconds');
  const unknowing = await taker.attempt(batch, askOne);
  await moveClock(bench.db, '-61 seconds');

  expect([failing.ending, unknowing.ending]).toEqual(['parked', 'parked']);
  expect([tries, lookedUp().length - tries]).toEqual([4, 1]);
  await letGo();
});

test('an answer that breaks off is recovered by its own sender, in the same attempt', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add(LOOK_UP);
  provide((exchange) => exchange.cut(), found);
  const result = await worker.attempt(batch, askOne);

  expect(result).toMatchObject({ ending: 'completed', replayedCalls: 0 });
  expect((await taskOf(bench.db, batch)).result).toBe('found');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 recovered']);
  expect(sent().length).toBe(1);
});

test('an answer that breaks off while the look-up is down is not paid again, neither by its sender nor by the next attempt', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add(LOOK_UP);
  provide(
    (exchange) => exchange.cut(),
    (exchange) => exchange.cut(),
  );
  const first = await worker.attempt(batch, askOne);
  await moveClock(bench.db, '61 seconds');
  const second = await worker.attempt(batch, askOne);
  await moveClock(bench.db, '-61 seconds');

  expect([first.ending, second.ending]).toEqual(['parked', 'parked']);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
  expect(sent().length).toBe(1);
});

for (const { how, text } of [
  { how: 'goes on from where it broke off', text: 'streamed' },
  { how: 'begins otherwise, so that the run starts over', text: 'other' },
])
  test(`a stream that breaks off is recovered whole where the one found ${how}, and replays`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add(LOOK_UP);
    const begun = Promise.withResolvers<void>();
    provide(
      async (exchange) => {
        exchange.openStream();
        for (const event of streamEvents(1, 'streamed').slice(0, 3)) await exchange.send(event);
        await begun.promise;
        exchange.cut();
      },
      (exchange) =>
        respondState(exchange, 'answered', streamEvents(1, text).join(''), {
          'content-type': 'text/event-stream',
          'x-dispatch-status': '200',
        }),
    );
    let runs = 0;
    const streamOne = async (task: Task) => {
      runs += 1;
      const stream = task.anthropic.messages.stream(question('one'));
      stream.on('text', () => begun.resolve());
      return stream.finalText();
    };
    const failing = await worker.attempt(batch, async (task) => {
      expect(await streamOne(task)).toBe(text);
      throw new Error('once');
    });
    const result = await worker.attempt(batch, streamOne);

    expect(failing.message).toBe('once');
    expect(result).toMatchObject({ ending: 'completed', replayedCalls: 1 });
    expect((await taskOf(bench.db, batch)).result).toBe(text);
    expect([await kindsOf(bench.db, batch), runs]).toEqual([['1.1 recovered'], text === 'streamed' ? 2 : 3]);
  });

test('with doubt policy hold a lost answer is recovered, too', async () => {
  const { batch, taker, letGo } = await doubtOfTheDead({ doubtPolicy: 'hold' });
  provide((exchange) => exchange.message('paid again'), found);
  const result = await taker.attempt(batch, askOne);

  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 recovered']);
  await letGo();
});

test('with doubt policy hold a person may have paid again what could not be proved: that is not looked up', async () => {
  const { batch, taker, letGo } = await doubtOfTheDead({ doubtPolicy: 'hold' });
  provide(
    (exchange) => exchange.message('paid again'),
    (exchange) => exchange.cut(),
  );
  const parked = await taker.attempt(batch, askOne);
  const { waiting_for, not_before } = await taskOf(bench.db, batch);
  const operator = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  await retryTask(operator, batch.replace(':', ':1:'), { by: 'ana', reason: 'not on the bill' }, 1);
  await operator.end();
  const asked = lookedUp().length;
  const result = await taker.attempt(batch, askOne);

  expect([parked.ending, waiting_for, not_before]).toEqual(['parked', 'settlement', expect.any(Date)]);
  expect(result.ending).toBe('completed');
  expect([sent().length, lookedUp().length - asked]).toEqual([2, 0]);
  await letGo();
});

test('a dispatch whose sender may still be at work is not looked up', async () => {
  const batch = await loadTestBatch(bench.db);
  const [sender, taker] = [await bench.workers.add(), await bench.workers.add(LOOK_UP)];
  bench.provider.hold();
  const attempt = await sender.start(batch, askOne);
  const exchange = await bench.provider.arrival(1);
  await takeAway(bench.db, attempt.lease.taskId);
  const result = await taker.attempt(batch, askOne);
  exchange.message();
  await attempt.result;
  await attempt.session().settled();

  expect([result.ending, lookedUp().length]).toEqual(['parked', 0]);
  expect(await taskOf(bench.db, batch)).toMatchObject({ waiting_for: null }); // woken by the late outcome
});

const BUDGET = { budgetUsd: '100' };

test('what was held for a lost dispatch is spent once it is recovered, and its late original changes nothing', async () => {
  const { batch, taker, letGo } = await doubtOfTheDead(BUDGET);
  provide((exchange) => exchange.message('paid again'), found);
  await taker.attempt(batch, askOne);
  const recovered = await proofOf(bench.db, batch);
  await letGo();

  expect(recovered).toMatchObject({ spent: COST, held: '0', drawn: COST, holds: true });
  expect(await proofOf(bench.db, batch)).toEqual(recovered);
});

test('what was held for a dispatch that was not received is free again', async () => {
  const { batch, taker, letGo } = await doubtOfTheDead(BUDGET);
  provide(
    (exchange) => exchange.message(),
    (exchange) => respondState(exchange, 'not-received'),
  );
  await taker.attempt(batch, askOne);

  expect(await proofOf(bench.db, batch)).toMatchObject({ spent: COST, held: '0', drawn: COST, holds: true });
  await letGo();
});

test('what was held for an answer that broke off is spent when it is recovered', async () => {
  const batch = await loadTestBatch(bench.db, BUDGET);
  const worker = await bench.workers.add(LOOK_UP);
  provide((exchange) => exchange.cut(), found);
  await worker.attempt(batch, askOne);

  expect(await proofOf(bench.db, batch)).toMatchObject({ spent: COST, held: '0', drawn: COST, holds: true });
});

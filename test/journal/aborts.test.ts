import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, fetchMessage, journalBench } from '../support/journal-bench.ts';
import { until } from '../support/until.ts';

const bench = journalBench();

/** Asks 'slow', gives it up once the provider has it, and goes on with what that led to. */
async function giveUp(task: Task, sent: () => Promise<unknown>): Promise<string> {
  const control = new AbortController();
  const slow = fetchMessage(task, 'slow', { signal: control.signal }).then(
    () => 'answered',
    () => 'gave up',
  );
  await sent();
  control.abort();
  return ask(task, `then: ${await slow}`);
}

/** One turn of the event loop: the call that was just made has been issued. */
const turn = () => new Promise(setImmediate);

/** Holds 'slow' until the next call has come, and answers everything else. */
function answerSlowLate(): void {
  bench.provider.script = async (exchange) => {
    if (exchange.prompt === 'slow') await bench.provider.arrival(2);
    exchange.message();
  };
}

test('a call that its caller aborted is still recorded when its answer comes: it was paid', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  answerSlowLate();
  const result = await worker.attempt(batch, (task) => giveUp(task, () => bench.provider.arrival(1)));

  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged', '2.1 charged']);
});

test('an aborted call stays pending on replay until it is aborted again, although its answer is recorded', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  answerSlowLate();
  await worker.attempt(batch, async (task) => {
    await giveUp(task, () => bench.provider.arrival(1));
    await until('the late answer is recorded', async () => (await kindsOf(bench.db, batch)).includes('1.1 charged'));
    throw new Error('the program breaks here');
  });
  const second = await worker.attempt(batch, (task) => giveUp(task, turn));

  expect(second.ending).toBe('completed');
  expect((await taskOf(bench.db, batch)).result).toBe('answer to then: gave up');
  expect(bench.provider.requestCount).toBe(2);
});

test('an abort is recorded: what was answered meanwhile does not reach the code on replay before it aborts again', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  let runs = 0;
  const run = async (task: Task) => {
    runs += 1;
    const isFirst = runs === 1;
    bench.provider.hold();
    const control = new AbortController();
    const slow = fetchMessage(task, 'slow', { signal: control.signal }).then(
      () => 'answered',
      () => 'gave up',
    );
    const exchange = await bench.provider.arrival(1);
    for (let turns = 0; turns < 20; turns += 1) await turn();
    control.abort();
    const end = await slow;
    if (isFirst) {
      exchange.message();
      await until('its answer is recorded', async () => (await kindsOf(bench.db, batch)).includes('1.1 charged'));
    }
    bench.provider.script = (exchange) => exchange.message();
    await ask(task, `then: ${end}`);
    if (isFirst) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  const second = await worker.attempt(batch, run);

  expect(second.ending).toBe('completed');
  expect(bench.provider.exchanges.map((exchange) => exchange.prompt)).toEqual(['slow', 'then: gave up']);
});

test('the answer of an aborted call does not hold up the results that came after it', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { restMs: 2_000 } });
  bench.provider.script = (exchange) => exchange.message();
  await worker.attempt(batch, async (task) => {
    const control = new AbortController();
    const slow = fetchMessage(task, 'slow', { signal: control.signal }).catch(() => undefined);
    await bench.provider.arrival(1);
    control.abort();
    await slow;
    await until('its answer is recorded', async () => (await kindsOf(bench.db, batch)).includes('1.1 charged'));
    await ask(task, 'next');
    throw new Error('the program breaks here');
  });
  const second = await worker.attempt(batch, async (task) => {
    const control = new AbortController();
    const slow = fetchMessage(task, 'slow', { signal: control.signal }).catch(() => undefined);
    await turn();
    control.abort();
    await slow;
    return ask(task, 'next');
  });

  expect(second).toMatchObject({ ending: 'completed' });
  expect(bench.provider.requestCount).toBe(2);
});

test('a call asked again after its abort takes the answer that was on its way: it is not paid twice', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.hold();
  const run = async (task: Task) => {
    const control = new AbortController();
    const first = fetchMessage(task, 'slow', { signal: control.signal }).catch(() => undefined);
    const exchange = await bench.provider.arrival(1);
    control.abort();
    await first;
    const again = fetchMessage(task, 'slow');
    exchange.message();
    return (await again).text();
  };
  const result = await worker.attempt(batch, run);

  expect(result.ending).toBe('completed');
  expect((await taskOf(bench.db, batch)).result).toContain('answer to slow');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('a call aborted before it went out is not sent', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    throw new Error('the program breaks here');
  });
  const second = await worker.attempt(batch, async (task) => {
    const control = new AbortController();
    const early = fetchMessage(task, 'early', { signal: control.signal }).catch(() => 'gave up'); // waits for 'one' to be used
    await turn();
    control.abort();
    await ask(task, 'one');
    return early;
  });

  expect(second.ending).toBe('completed');
  expect((await taskOf(bench.db, batch)).result).toBe('gave up');
  expect(bench.provider.exchanges.map((exchange) => exchange.prompt)).toEqual(['one']);
});

test('a signal that has aborted already keeps its call from being issued', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const result = await worker.attempt(batch, (task) =>
    fetchMessage(task, 'one', { signal: AbortSignal.abort(new Error('too late')) }),
  );

  expect(result).toMatchObject({ ending: 'failed', message: 'too late' });
  expect(bench.provider.requestCount).toBe(0);
});

test('a stream asked again while the aborted one is still arriving comes whole, from its first byte', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.hold();
  const result = await worker.attempt(batch, async (task) => {
    const control = new AbortController();
    const first = await Promise.all([
      fetchMessage(task, 'stream', { signal: control.signal }),
      bench.provider.arrival(1).then(async (exchange) => {
        exchange.openStream();
        await exchange.send('data: {"n":1}\n\n');
        return exchange;
      }),
    ]);
    control.abort();
    const again = fetchMessage(task, 'stream');
    await first[1].send('data: {"n":2}\n\n');
    const response = await again;
    await first[1].send('data: {"type":"message_stop"}\n\n');
    first[1].end();
    return response.text();
  });

  expect(result.ending).toBe('completed');
  expect((await taskOf(bench.db, batch)).result).toBe(
    'data: {"n":1}\n\ndata: {"n":2}\n\ndata: {"type":"message_stop"}\n\n',
  );
});

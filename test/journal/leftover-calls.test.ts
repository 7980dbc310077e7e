import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { dispatchesOf, kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, fetchMessage, journalBench } from '../support/journal-bench.ts';

const bench = journalBench();
const SOON = { 'retry-after': '0.001' };

test('a call fired and never awaited is paid and recorded once, and the task is completed only then', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => (exchange.prompt === 'fired' ? undefined : exchange.message());
  const attempt = await worker.start(batch, async (task) => {
    void ask(task, 'fired');
    return ask(task, 'awaited');
  });
  const fired = await bench.provider.arrival(1);
  const { state } = await taskOf(bench.db, batch);
  fired.message();

  expect(state).toBe('running');
  expect((await attempt.result).ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged', '2.1 charged']);
});

test('a call fired and never awaited is not paid again when the task is resumed', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  let runs = 0;
  const run = async (task: Task) => {
    void ask(task, 'fired');
    await ask(task, 'awaited');
    runs += 1;
    if (runs === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  const second = await worker.attempt(batch, run);

  expect(second.ending).toBe('completed');
  expect(bench.provider.requestCount).toBe(2);
});

test('the loser of a race is paid and recorded once, and replayed', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const winners: string[] = [];
  bench.provider.script = async (exchange) => {
    if (exchange.prompt === 'slow') await bench.provider.arrival(3);
    exchange.message();
  };
  const run = async (task: Task) => {
    const winner = await Promise.race([ask(task, 'slow'), ask(task, 'quick')]);
    winners.push(winner);
    await ask(task, 'then');
    if (winners.length === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  const second = await worker.attempt(batch, run);

  expect(second.ending).toBe('completed');
  expect(winners).toEqual(['answer to quick', 'answer to quick']);
  expect(bench.provider.requestCount).toBe(3);
});

test('a call issued after the run has returned is refused, not sent, and tells why', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  let late: (() => Promise<Response>) | undefined;
  await worker.attempt(batch, async (task) => {
    late = () => fetchMessage(task, 'late');
  });
  const response = await late?.();

  expect(response?.status).toBe(400);
  expect(await response?.text()).toContain('issued after its run had ended, and was not sent');
  expect(bench.provider.requestCount).toBe(0);
});

test('a step begun after the run has returned is refused', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  let late: (() => Promise<unknown>) | undefined;
  await worker.attempt(batch, async (task) => {
    late = () => task.step('late', () => 1);
  });

  await expect(late?.()).rejects.toThrow(/step "late" was started after its run had ended/);
});

test('a refused call that nobody waits for any more is not tried again', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.refuse(529, 'overloaded_error', SOON);
  const result = await worker.attempt(batch, async (task) => {
    const control = new AbortController();
    const given = fetchMessage(task, 'given up', { signal: control.signal }).catch(() => 'gave up');
    await bench.provider.arrival(1);
    control.abort();
    return given;
  });

  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused']);
});

test('a refused call of a run that has ended is not tried again', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.hold();
  const attempt = await worker.start(batch, async (task) => {
    void ask(task, 'fired');
    await bench.provider.arrival(1);
    return 'done';
  });
  const fired = await bench.provider.arrival(1);
  bench.provider.script = (exchange) => exchange.message();
  fired.refuse(529, 'overloaded_error', SOON);

  expect((await attempt.result).ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused']);
});

test('a worker told to stop does not sit out a back-off before it gives its task back', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxWaitMs: 4_000_000 } });
  bench.provider.script = (exchange) => exchange.refuse(429, 'rate_limit_error', { 'retry-after': '3600' });
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  await bench.provider.arrival(1).then((exchange) => exchange.closed);
  attempt.session().end({ kind: 'released', message: 'the worker is stopping' });

  expect((await attempt.result).ending).toBe('released');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused']);
});

test('a call asked again while its aborted twin is being refused goes out', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.hold();
  const result = await worker.attempt(batch, async (task) => {
    const control = new AbortController();
    const given = fetchMessage(task, 'one', { signal: control.signal }).catch(() => 'gave up');
    const exchange = await bench.provider.arrival(1);
    control.abort();
    await given;
    bench.provider.script = (exchange) => exchange.message();
    exchange.refuse(529, 'overloaded_error', SOON);
    return (await fetchMessage(task, 'one')).status;
  });

  expect(result.ending).toBe('completed');
  expect((await taskOf(bench.db, batch)).result).toBe(200);
  expect((await dispatchesOf(bench.db, batch)).at(-1)).toMatchObject({ seq: 1, kind: 'charged' });
});

test('an attempt that was ended leaves nothing on the signals of its code, which a client’s timer may keep for days', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const control = new AbortController();
  bench.provider.hold();
  const attempt = await worker.start(batch, (task) => fetchMessage(task, 'one', { signal: control.signal }));
  const exchange = await bench.provider.arrival(1);
  const before = getEventListeners(control.signal, 'abort').length;
  attempt.session().end({ kind: 'lost', message: 'the heartbeat says so' });
  await attempt.result;
  exchange.message();
  await attempt.session().settled();

  expect([before, getEventListeners(control.signal, 'abort').length]).toEqual([1, 0]);
});

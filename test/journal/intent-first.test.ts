import '../support/gate-environment.ts';
import { afterAll, afterEach, expect, test, vi } from 'vitest';
import { liftStop } from '../support/as-person.ts';
import { dispatchesOf, kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { openAllGates, shutGate } from '../support/gates.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { stallCommits } from '../support/stalled-commit.ts';

const bench = journalBench();
afterEach(() => vi.restoreAllMocks());
afterAll(openAllGates);

test('no request leaves while the commit of its intent is under way', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const intents = await stallCommits(bench.db, 'call_intent', batch);
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  await intents.stalled();
  const sentMeanwhile = bench.provider.requestCount;
  await intents.release();

  expect(sentMeanwhile).toBe(0);
  expect((await attempt.result).ending).toBe('completed');
  expect(bench.provider.requestCount).toBe(1);
});

test('the intent is in the database, committed, before the provider sees anything', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.hold();
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(1);
  const kinds = await kindsOf(bench.db, batch);
  exchange.message();
  await attempt.result;

  expect(kinds).toEqual(['1.1 -']);
});

test('an intent that the database refuses is never sent, and the attempt fails saying why', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const result = await worker.attempt(batch, (task) => task.scope('with a NUL: \0', (scoped) => ask(scoped, 'one')));

  expect(result.ending).toBe('failed');
  expect(result.message).toMatch(/invalid byte sequence/);
  expect(bench.provider.requestCount).toBe(0);
});

test('a process that froze between commit and sending closes its intent as not sent, and sends anew under a fresh one', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const gate = shutGate('journal.intent.after');
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  await gate.reached();
  const now = Date.now();
  const clock = vi.spyOn(Date, 'now').mockReturnValue(now + 5_500); // the machine slept: only the wall clock knows
  const late = await kindsOf(bench.db, batch);
  bench.provider.script = (exchange) => {
    clock.mockRestore();
    exchange.message();
  };
  gate.open();
  const result = await attempt.result;

  expect(late).toEqual(['1.1 -']);
  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 not_sent', '1.2 charged']);
  expect((await dispatchesOf(bench.db, batch))[0]?.error).toContain('too late to be sent');
  expect(bench.provider.requestCount).toBe(1);
});

test('a batch stopped between two calls lets no further request out, and its task goes back without losing an attempt', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const result = await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    await bench.db.pool.query(`SELECT madrugada.stop_batch($1, 'enough')`, [batch]);
    await ask(task, 'two');
  });

  expect(result).toMatchObject({ ending: 'stopped', message: expect.stringContaining('enough') });
  expect(bench.provider.requestCount).toBe(1);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0 });
});

test('the stop of everything lets no further request out', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const result = await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    await bench.db.pool.query(`SELECT madrugada.stop_everything('a person says so')`);
    await ask(task, 'two');
  });
  await liftStop(bench.db);

  expect(result).toMatchObject({ ending: 'stopped', message: 'everything is stopped' });
  expect(bench.provider.requestCount).toBe(1);
});

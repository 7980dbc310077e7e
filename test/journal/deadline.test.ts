import { createServer, type Server } from 'node:net';
import { buildConnector, Agent as HttpAgent } from 'undici';
import { afterEach, expect, test, vi } from 'vitest';
import { Deadline } from '../../src/journal/deadline.ts';
import { dispatchesOf, kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, journalBench, question } from '../support/journal-bench.ts';
import { streamEvents } from '../support/scripted-provider.ts';

const bench = journalBench();
afterEach(() => vi.restoreAllMocks());

test('elapsed time is wall time while the monotonic clock stands still, as in a machine that sleeps', () => {
  const deadline = new Deadline(600_000);
  vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 5_001);
  expect(deadline.maySend).toBe(false);
});

test('elapsed time is monotonic time when the wall clock is set back', () => {
  const deadline = new Deadline(600_000);
  const now = performance.now();
  vi.spyOn(Date, 'now').mockReturnValue(Date.now() - 3_600_000);
  vi.spyOn(performance, 'now').mockReturnValue(now + 5_001);
  expect(deadline.maySend).toBe(false);
});

test('a dispatch may be sent within five seconds of its intent', () => {
  const deadline = new Deadline(600_000);
  vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 4_500);
  expect(deadline.maySend).toBe(true);
});

test('a dispatch whose whole deadline is shorter than five seconds is not sent after it', () => {
  const deadline = new Deadline(1_000);
  vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 1_001);
  expect(deadline.maySend).toBe(false);
});

test('a connection that becomes ready too late carries no request: the intent is closed as not sent', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  const connector = buildConnector({});
  worker.env.dispatcher = new HttpAgent({
    connect: (options, done) =>
      connector(options, (...ready) => {
        vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 5_500); // it took so long to connect
        done(...ready);
      }),
  });
  await worker.attempt(batch, (task) => ask(task, 'one'));
  await worker.env.dispatcher.destroy();

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 not_sent']);
  expect(bench.provider.requestCount).toBe(0);
});

test('a connection that becomes ready after the deadline has ended the dispatch carries no request', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1, dispatchMs: 200 } });
  const connector = buildConnector({});
  const ended = Promise.withResolvers<void>();
  worker.env.dispatcher = new HttpAgent({
    connect: (options, done) => void ended.promise.then(() => connector(options, done)),
  });
  vi.spyOn(Date, 'now').mockReturnValue(Date.now()); // by its clocks no time has passed; only the timer says so
  vi.spyOn(performance, 'now').mockReturnValue(performance.now());
  await worker.attempt(batch, (task) => ask(task, 'one'));
  ended.resolve();
  await worker.env.dispatcher.close(); // waits for what was begun

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 not_sent']);
  expect(bench.provider.requestCount).toBe(0);
});

test('a connection that is refused has sent nothing: not a doubt', async () => {
  const batch = await loadTestBatch(bench.db, { agentOptions: {} });
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  const port = await freePort();
  await worker.attempt(batch, (task) =>
    task.fetch(`http://127.0.0.1:${port}/v1/messages`, { method: 'POST', body: JSON.stringify(question('one')) }),
  );

  const [row] = await dispatchesOf(bench.db, batch);
  expect(row).toMatchObject({ kind: 'not_sent', error: expect.stringContaining('ECONNREFUSED') });
});

/** A port nobody listens on. */
async function freePort(): Promise<number> {
  const server: Server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

for (const [what, begin] of [
  ['headers that never come', () => undefined],
  ['a body that stalls', (exchange: { openStream(): void }) => exchange.openStream()],
] as const)
  test(`${what} do not hang the worker: the deadline ends the dispatch, which stays in doubt`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add({ limits: { maxDispatches: 1, dispatchMs: 400 } });
    bench.provider.script = begin;
    await worker.attempt(batch, (task) => ask(task, 'one'));

    expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
    expect((await dispatchesOf(bench.db, batch))[0]?.error).toContain('no whole response within 0.4 s');
  });

test('a stream that stalls is given up after the limit for silence, long before the deadline', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1, idleMs: 300 } });
  bench.provider.script = (exchange) => {
    exchange.openStream();
    void exchange.send(streamEvents(1, 'a part').slice(0, 3).join(''));
  };
  await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
  expect((await dispatchesOf(bench.db, batch))[0]?.error).toBe('the response stalled: nothing came for 0.3 s');
});

test('a response that does not begin is given up after the limit for its headers', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1, headersMs: 300 } });
  bench.provider.hold();
  await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
  expect((await dispatchesOf(bench.db, batch))[0]?.error).toBe('no response began within 0.3 s');
});

test('after a deadline of its own the sender pays again under policy pay_again, and both dispatches are named', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { dispatchMs: 400 } });
  bench.provider.script = (exchange) => (exchange.number === 1 ? undefined : exchange.message());
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown', '1.2 charged']);
  const { rows } = await bench.db.pool.query(
    'SELECT seq, dispatch FROM madrugada.audit_in_doubt WHERE batch_key = $1',
    [batch],
  );
  expect(rows).toEqual([{ seq: 1, dispatch: 1 }]);
});

test('the deadline in the database is not before the one the sender keeps', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const before = Date.now();
  await worker.attempt(batch, (task) => ask(task, 'one'));
  const { id } = await taskOf(bench.db, batch);
  const { rows } = await bench.db.pool.query<{ deadline_at: Date }>(
    'SELECT deadline_at FROM madrugada.call_intent WHERE batch_key = $1 AND task_id = $2',
    [batch, id],
  );

  expect(rows[0]?.deadline_at.getTime()).toBeGreaterThanOrEqual(before + 600_000);
});

import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { dispatchesOf, kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, fetchMessage, journalBench } from '../support/journal-bench.ts';

const bench = journalBench();
const prompts = () => bench.provider.exchanges.map((exchange) => exchange.prompt);

/** A run that asks `asked` in turn and then breaks. */
function breakAfter(...asked: string[]): (task: Task) => Promise<never> {
  return async (task) => {
    for (const prompt of asked) await ask(task, prompt);
    throw new Error('the program breaks here');
  };
}

test('a recorded call is answered from the journal and not sent again when its task is resumed', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const first = await worker.attempt(batch, breakAfter('one'));
  const second = await worker.attempt(batch, async (task) => [await ask(task, 'one'), await ask(task, 'two')]);

  expect(first.ending).toBe('failed');
  expect(second).toMatchObject({ ending: 'completed', replayedCalls: 1 });
  expect((await taskOf(bench.db, batch)).result).toEqual(['answer to one', 'answer to two']);
  expect(prompts()).toEqual(['one', 'two']);
  expect((await dispatchesOf(bench.db, batch)).map((row) => row.attempt)).toEqual([1, 2]);
});

test('a whole attempt that is replayed to its end sends nothing and completes the task', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, breakAfter('one', 'two'));
  const second = await worker.attempt(batch, async (task) => [await ask(task, 'one'), await ask(task, 'two')]);

  expect(second).toMatchObject({ ending: 'completed', replayedCalls: 2 });
  expect(bench.provider.requestCount).toBe(2);
});

test('a replayed answer has the bytes, the status and the request id of the first one', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const seen: unknown[] = [];
  const run = async (task: Task) => {
    const response = await fetchMessage(task, 'one');
    seen.push([response.status, response.headers.get('request-id'), await response.text()]);
    if (seen.length === 1) throw new Error('the program breaks here');
    return 'done';
  };
  await worker.attempt(batch, run);
  await worker.attempt(batch, run);

  expect(seen[0]).toEqual([200, 'req_1', expect.stringContaining('answer to one')]);
  expect(seen[1]).toEqual(seen[0]);
});

test('a new call waits until every recorded call has been asked for again, and only then goes out', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, breakAfter('one', 'two'));
  const sentBefore: number[] = [];
  const second = await worker.attempt(batch, async (task) => {
    const fresh = ask(task, 'new').then(() => sentBefore.push(bench.provider.requestCount));
    await ask(task, 'one');
    sentBefore.push(bench.provider.requestCount);
    await Promise.all([ask(task, 'two'), fresh]);
  });

  expect(second.ending).toBe('completed');
  expect(sentBefore).toEqual([2, 3]);
  expect(prompts()).toEqual(['one', 'two', 'new']);
});

test('a run that ends without having used a recorded call has diverged: its task fails and nothing is paid', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, breakAfter('one', 'two'));
  const second = await worker.attempt(batch, async (task) => ask(task, 'one'));

  expect(second).toMatchObject({ ending: 'failed', isFinal: true });
  expect(second.message).toMatch(/recorded call 2 was not used.*Nothing was paid.*--pay-again-from 2/);
  expect((await taskOf(bench.db, batch)).failure).toMatchObject({ kind: 'diverged', seq: 2, atRest: 'settled' });
  expect(bench.provider.requestCount).toBe(2);
});

test('code that asks another question than the journal holds is not answered by a live call, silently', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { restMs: 50 } });
  await worker.attempt(batch, breakAfter('one'));
  const second = await worker.attempt(batch, async (task) => ask(task, 'one, but changed'));

  expect(second).toMatchObject({ ending: 'failed', isFinal: true });
  expect(second.message).toMatch(/the code asked for another call instead: POST \/v1\/messages/);
  expect(prompts()).toEqual(['one']);
});

test('a diverged run that threw says also what it threw', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, breakAfter('one'));
  const second = await worker.attempt(batch, async () => {
    throw new Error('no room for the answer');
  });

  expect(second.message).toContain('The run had thrown: no room for the answer');
});

test('an intent without an outcome counts as recorded: the call that comes first again is not another one', async () => {
  const batch = await loadTestBatch(bench.db);
  const [lost, taker] = [await bench.workers.add(), await bench.workers.add({ limits: { restMs: 50 } })];
  bench.provider.hold();
  const first = await lost.start(batch, (task) => ask(task, 'one'));
  const held = await bench.provider.arrival(1);
  await bench.db.pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [
    first.lease.taskId,
    'by the test',
  ]);
  const second = await taker.attempt(batch, (task) => ask(task, 'two'));
  held.message();

  expect(second).toMatchObject({ ending: 'failed', isFinal: true });
  expect(second.message).toContain('recorded call 1 was not used');
  await first.result;
  expect(bench.provider.requestCount).toBe(1);
});

test('tasks of one night do not see each other’s journals', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 });
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => ask(task, 'the same for all'));
  await worker.attempt(batch, async (task) => ask(task, 'the same for all'));

  expect(bench.provider.requestCount).toBe(2);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged', '1.1 charged']);
});

test('two versions of one batch, loaded in the same second, keep two journals', async () => {
  const id = 'same-month';
  const batches = [
    await loadTestBatch(bench.db, { id, version: 'v1' }),
    await loadTestBatch(bench.db, { id, version: 'v2' }),
  ];
  const worker = await bench.workers.add();
  for (const batch of batches) await worker.attempt(batch, (task) => ask(task, 'the same'));

  expect(bench.provider.requestCount).toBe(2);
  for (const batch of batches) expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { dispatchesOf, kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, fetchMessage, journalBench } from '../support/journal-bench.ts';

const bench = journalBench();

/** Answers every request with its number, so that equal questions get different answers. */
function numberAnswers(): void {
  bench.provider.script = (exchange) => exchange.message(`answer ${exchange.number}`);
}

test('equal requests are calls of their own: no legitimate answer disappears', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  numberAnswers();
  await worker.attempt(batch, async (task) => [await ask(task, 'same'), await ask(task, 'same')]);

  expect((await taskOf(bench.db, batch)).result).toEqual(['answer 1', 'answer 2']);
  expect((await dispatchesOf(bench.db, batch)).map((row) => row.occurrence)).toEqual([1, 2]);
});

test('equal requests made at the same time get the same answers again on replay, each its own', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  numberAnswers();
  const seen: string[][] = [];
  const run = async (task: Task) => {
    seen.push(await Promise.all([ask(task, 'same'), ask(task, 'same'), ask(task, 'same')]));
    if (seen.length === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  await worker.attempt(batch, run);

  expect(new Set(seen[0]).size).toBe(3);
  expect(seen[1]).toEqual(seen[0]);
  expect(bench.provider.requestCount).toBe(3);
});

test('one more equal request than was recorded is a new call, and is paid', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  numberAnswers();
  await worker.attempt(batch, async (task) => {
    await ask(task, 'same');
    throw new Error('the program breaks here');
  });
  await worker.attempt(batch, async (task) => [await ask(task, 'same'), await ask(task, 'same')]);

  expect((await taskOf(bench.db, batch)).result).toEqual(['answer 1', 'answer 2']);
});

test('equal requests in two scopes do not take each other’s answers, whichever branch comes first', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  numberAnswers();
  const branch = (task: Task, name: string) => task.scope(name, (scoped) => ask(scoped, 'same'));
  await worker.attempt(batch, async (task) => {
    await branch(task, 'left');
    await branch(task, 'right');
    throw new Error('the program breaks here');
  });
  await worker.attempt(batch, (task) => Promise.all([branch(task, 'right'), branch(task, 'left')]));

  expect((await taskOf(bench.db, batch)).result).toEqual(['answer 2', 'answer 1']);
});

test('scopes of one name inside two others are two scopes', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, (task) =>
    Promise.all(
      ['a', 'b'].map((outer) => task.scope(outer, (scoped) => scoped.scope('inner', (inner) => ask(inner, 'same')))),
    ),
  );
  const { rows } = await bench.db.pool.query(
    'SELECT scope FROM madrugada.call_intent WHERE batch_key = $1 ORDER BY scope',
    [batch],
  );

  expect(rows.map((row) => row.scope)).toEqual(['a/inner', 'b/inner']);
});

test('a request that carries a client’s retry header takes the call it repeats, not a new one', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => {
    const first = await fetchMessage(task, 'one');
    const again = await fetchMessage(task, 'one', { headers: { 'x-stainless-retry-count': '1' } });
    return (await first.text()) === (await again.text());
  });

  expect((await taskOf(bench.db, batch)).result).toBe(true);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('a retry count of zero, which clients send with every first try, is no retry', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const headers = { 'x-stainless-retry-count': '0' };
  await worker.attempt(batch, async (task) => {
    await fetchMessage(task, 'one', { headers });
    await fetchMessage(task, 'one', { headers });
  });

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged', '2.1 charged']);
});

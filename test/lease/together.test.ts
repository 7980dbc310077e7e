import Big from 'big.js';
import { expect, test } from 'vitest';
import { Draws } from '../../src/lease/draw.ts';
import { Completions, type Holder } from '../../src/lease/finish.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { holderOf } from '../support/leases.ts';
import { proofOf } from '../support/money.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { rowLockWait } from '../support/row-lock-wait.ts';

const bench = leaseBench();

/** A batch of four running tasks with a budget, whose money somebody holds: what is asked for now waits. */
async function waiting(budgetUsd: string) {
  const batch = await loadTestBatch(bench.db, { tasks: 4, budgetUsd });
  const holders = [];
  for (let n = 0; n < 4; n += 1) holders.push(holderOf((await (await bench.workers.add()).claim(batch)).lease));
  const [a, b, c, d] = holders;
  if (!a || !b || !c || !d) throw new Error('four tasks were not claimed');
  const money = await openTransaction(bench.db);
  await money.client.query('SELECT FROM madrugada.batch_spending WHERE batch_key = $1 FOR UPDATE', [batch]);
  return { batch, holders: [a, b, c, d] as const, money };
}

/** Attempts of a batch by the transaction that wrote them last. */
async function writtenTogether(batch: string): Promise<number[][]> {
  const { rows } = await bench.db.pool.query<{ positions: number[] }>(
    `SELECT array_agg(t.position ORDER BY t.position) AS positions FROM madrugada.attempt a JOIN madrugada.task t ON t.id = a.task_id
      WHERE t.batch_key = $1 GROUP BY a.xmin::text ORDER BY 1`,
    [batch],
  );
  return rows.map(({ positions }) => positions);
}

test('draws that are asked for while one waits share a commit, and one whose lease is gone takes no other along', async () => {
  const { batch, holders, money } = await waiting('2.5');
  const draws = new Draws(bench.worker.pool);
  const one = new Big(1);
  const first = draws.draw(holders[0], one, one);
  expect(await rowLockWait(bench.db)).toContain('draw_allowances');
  const rest = [
    draws.draw({ ...holders[1], leaseToken: 7 }, one, one),
    draws.draw(holders[2], one, one),
    draws.draw(holders[3], one, one),
  ];
  await money.commit();

  expect(await first).toEqual({ kind: 'granted', usd: one });
  expect(await Promise.all(rest)).toEqual([
    { kind: 'lost' },
    { kind: 'granted', usd: one },
    { kind: 'refused', limit: 'the budget of the batch', free: new Big('0.5') },
  ]);
  expect(await proofOf(bench.db, batch)).toMatchObject({ drawn: '2', holds: true });
});

test('tasks that are completed while one waits share a commit', async () => {
  const { batch, holders, money } = await waiting('10');
  const draws = new Draws(bench.worker.pool);
  const completions = new Completions(bench.worker.pool);
  await money.rollback();
  for (const holder of holders) await draws.draw(holder, new Big(1), new Big(1)); // to be given back, for which the money is needed
  const again = await openTransaction(bench.db);
  await again.client.query('SELECT FROM madrugada.batch_spending WHERE batch_key = $1 FOR UPDATE', [batch]);
  const first = completions.complete(holders[0], 'one', 0);
  expect(await rowLockWait(bench.db)).toContain('complete_tasks');
  const rest = holders.slice(1).map((holder) => completions.complete(holder, 'other', 0));
  await again.commit();

  expect(await Promise.all([first, ...rest])).toEqual([true, true, true, true]);
  expect(await writtenTogether(batch)).toEqual([[1], [2, 3, 4]]);
  expect(await proofOf(bench.db, batch)).toMatchObject({ drawn: '0', holds: true });
});

test('an answer that the database refuses takes no other along', async () => {
  const { batch, holders, money } = await waiting('10');
  const completions = new Completions(bench.worker.pool);
  await money.rollback();
  const results = await Promise.allSettled(
    ['one', 'NUL: \0', 'three'].map((answer, index) => completions.complete(holders[index as 0 | 1 | 2], answer, 0)),
  );

  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect((await taskOf(bench.db, batch, 1)).state).toBe('completed');
  expect((await taskOf(bench.db, batch, 2)).state).toBe('running');
  expect((await taskOf(bench.db, batch, 3)).state).toBe('completed');
});

for (const [what, act] of [
  [
    'completed',
    () => {
      const completions = new Completions(bench.worker.pool);
      return (holder: Holder) => completions.complete(holder, 'answer', 0);
    },
  ],
  [
    'granted money',
    () => {
      const draws = new Draws(bench.worker.pool);
      return async (holder: Holder) => (await draws.draw(holder, new Big(1), new Big(1))).kind === 'granted';
    },
  ],
] as const)
  for (const [when, turns] of [
    ['with', [[0, 1, 2, 3]]],
    ['after', [[0], [1, 2, 3]]],
  ] as const)
    test(`a task that somebody has locked does not hold up those that are ${what} ${when} it`, async () => {
      const { holders, money } = await waiting('10');
      await money.rollback();
      const run = act();
      const lock = await openTransaction(bench.db);
      await lock.client.query('SELECT FROM madrugada.task WHERE id = $1 FOR UPDATE', [holders[0].taskId]);
      const results: Promise<boolean>[] = [];
      for (const turn of turns) {
        results.push(...turn.map((index) => run(holders[index])));
        if (turn.length === 1) await rowLockWait(bench.db);
      }
      const others = await Promise.all(results.slice(1)); // while the lock is there
      const statement = await rowLockWait(bench.db);
      await lock.commit();

      expect(others).toEqual([true, true, true]);
      expect(statement).toMatch(/complete_tasks|draw_allowances/);
      expect(await results[0]).toBe(true);
    });

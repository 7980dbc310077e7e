import { expect, test } from 'vitest';
import { closeBatch, stopBatch } from '../../src/batch/change-batch.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { actionBench, transferDefinition } from '../support/action-bench.ts';
import { loadTestBatch } from '../support/attempts.ts';

const bench = actionBench();

async function giveUp(batch: string): Promise<void> {
  const client = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  try {
    await stopBatch(client, batch, { by: 'ana', reason: 'not needed' });
    await closeBatch(client, batch, { by: 'ana', reason: 'not needed' }, true);
  } finally {
    await client.end();
  }
}

test('what a given-up task has proposed can no longer be approved', async () => {
  const batch = await bench.allow(await loadTestBatch(bench.db));
  const transfer = transferDefinition();
  const worker = await bench.workers.add();
  await (await bench.start(worker, batch, [transfer], (task) => task.action(transfer, { from: 1, to: 2, amount: '1' })))
    .result;
  const { rows } = await bench.db.pool.query('SELECT id FROM madrugada.action WHERE batch_key = $1', [batch]);
  await giveUp(batch);
  expect(await bench.action(rows[0].id)).toMatchObject({ state: 'rejected', why: 'its task was given up' });
  await expect(bench.decide(rows[0].id)).rejects.toThrow('it is rejected: its task was given up');
});

test('a task is not given up while something that it has done stands', async () => {
  const batch = await bench.allow(await loadTestBatch(bench.db));
  const done = transferDefinition({ name: 'done', approval: 'none' });
  const asked = transferDefinition({ name: 'asked' });
  const worker = await bench.workers.add();
  const attempt = await bench.start(worker, batch, [done, asked], async (task) => {
    await task.action(done, { from: 1, to: 2, amount: '1' });
    await task.action(asked, { from: 1, to: 2, amount: '2' });
  });
  expect((await attempt.result).ending).toBe('parked');
  await expect(giveUp(batch)).rejects.toThrow(
    /action \d+ of tasks that are not finished may be in effect; resume the batch/,
  );
  const { rows } = await bench.db.pool.query(
    'SELECT name, state FROM madrugada.action WHERE batch_key = $1 ORDER BY name',
    [batch],
  );
  expect(rows).toEqual([
    { name: 'asked', state: 'proposed' },
    { name: 'done', state: 'committed' },
  ]);
});

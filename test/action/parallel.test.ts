import { expect, test } from 'vitest';
import { actionBench, transferDefinition } from '../support/action-bench.ts';
import { loadTestBatch } from '../support/attempts.ts';

const bench = actionBench();
const MOVE = { from: 1, to: 2, amount: '300.00' };

test('a task that parks for one action first sees another one through that is under way', async () => {
  const batch = await bench.allow(await loadTestBatch(bench.db));
  let arrived: () => void = () => undefined;
  let letGo: () => void = () => undefined;
  const isUnderWay = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const mayGoOn = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const waiting = transferDefinition({ name: 'waiting' });
  const base = transferDefinition({ name: 'slow', approval: 'none' });
  const slow = transferDefinition({
    ...base,
    async execute(...args) {
      arrived();
      await mayGoOn;
      return base.execute(...args);
    },
  });
  const worker = await bench.workers.add();
  const attempt = await bench.start(worker, batch, [waiting, slow], async (task) => {
    const done = task.action(slow, MOVE);
    await isUnderWay;
    await Promise.all([done, task.action(waiting, { from: 2, to: 3, amount: '1.00' })]);
  });
  await isUnderWay;
  await attempt.session().ended; // it is to be parked
  const { rows } = await bench.db.pool.query('SELECT state FROM madrugada.task WHERE batch_key = $1', [batch]);
  expect(rows).toEqual([{ state: 'running' }]);
  letGo();
  expect((await attempt.result).ending).toBe('parked');
  const states = await bench.db.pool.query(
    'SELECT name, state FROM madrugada.action WHERE batch_key = $1 ORDER BY name',
    [batch],
  );
  expect(states.rows).toEqual([
    { name: 'slow', state: 'committed' },
    { name: 'waiting', state: 'proposed' },
  ]);
  expect(await bench.movements(1)).toBe(1);
});

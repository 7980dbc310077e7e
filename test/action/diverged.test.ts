import { expect, test } from 'vitest';
import { actionBench, transferDefinition } from '../support/action-bench.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { ask } from '../support/journal-bench.ts';

const bench = actionBench();

test('a run that takes another way than the one recorded changes nothing outside: it stops as diverged, with nothing proposed', async () => {
  const batch = await bench.allow(await loadTestBatch(bench.db));
  const transfer = transferDefinition({ approval: 'none' });
  const worker = await bench.workers.add({ limits: { restMs: 200 } });
  const first = await bench.start(worker, batch, [transfer], async (task) => {
    await ask(task, 'one');
    throw new Error('the program breaks here');
  });
  await first.result;
  const second = await bench.start(worker, batch, [transfer], (task) =>
    task.action(transfer, { from: 1, to: 2, amount: '300.00' }),
  );
  const result = await second.result;

  expect(result).toMatchObject({ ending: 'failed', isFinal: true });
  const { rows } = await bench.db.pool.query('SELECT failure FROM madrugada.task WHERE batch_key = $1', [batch]);
  expect(rows[0].failure.kind).toBe('diverged');
  expect((await bench.db.pool.query('SELECT FROM madrugada.action WHERE batch_key = $1', [batch])).rowCount).toBe(0);
  expect(await bench.movements(1)).toBe(0);
});

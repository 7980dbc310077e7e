import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { actionBench, transferDefinition } from '../support/action-bench.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { moveClock } from '../support/move-clock.ts';

const bench = actionBench();

test('a target that cannot be read back is asked again for ten minutes by the same worker, and then a person is', async () => {
  const batch = await bench.allow(await loadTestBatch(bench.db));
  const transfer = transferDefinition({
    approval: 'none',
    verify: () => Promise.reject(new Error('the bank is closed')),
  });
  const worker = await bench.workers.add();
  const run = (task: Task) => task.action(transfer, { from: 1, to: 2, amount: '300.00' });
  const states: string[] = [];
  for (let look = 0; look < 3; look += 1) {
    expect((await (await bench.start(worker, batch, [transfer], run)).result).ending).toBe('parked');
    const { rows } = await bench.db.pool.query('SELECT state FROM madrugada.action WHERE batch_key = $1', [batch]);
    states.push(rows[0].state);
    await moveClock(bench.db, '6 minutes');
  }

  expect(states).toEqual(['in_flight', 'in_flight', 'unknown']);
  const { rows } = await bench.db.pool.query(
    `SELECT message FROM madrugada.alert WHERE batch_key = $1 AND kind = 'action unknown'`,
    [batch],
  );
  expect(rows[0].message).toContain('it cannot be told whether it took effect');
  expect(await bench.movements(1)).toBe(1);
});

test('a proposal that the database could not take just now is proposed again by the next attempt, and fails nobody for good', async () => {
  const batch = await bench.allow(await loadTestBatch(bench.db));
  const transfer = transferDefinition();
  const worker = await bench.workers.add();
  const run = (task: Task) => task.action(transfer, { from: 1, to: 2, amount: '300.00' });
  await bench.db.pool.query(`
    CREATE FUNCTION public.deadlock() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected'; END $$;
    CREATE TRIGGER deadlock BEFORE INSERT ON madrugada.action FOR EACH ROW EXECUTE FUNCTION public.deadlock()`);
  const first = await (await bench.start(worker, batch, [transfer], run)).result;
  await bench.db.pool.query('DROP FUNCTION public.deadlock CASCADE');
  expect(first).toMatchObject({ ending: 'failed', isFinal: false });
  expect((await (await bench.start(worker, batch, [transfer], run)).result).ending).toBe('parked');
});

test('a proposal that the database refuses for what it says fails its task at once', async () => {
  const batch = await bench.allow(await loadTestBatch(bench.db));
  const transfer = transferDefinition({ blastRadius: () => '' });
  const worker = await bench.workers.add();
  const result = await (
    await bench.start(worker, batch, [transfer], (task) => task.action(transfer, { from: 1, to: 2, amount: '1' }))
  ).result;
  expect(result).toMatchObject({ ending: 'failed', isFinal: true });
  expect(result.message).toContain('blast_radius');
});

import { expect, test } from 'vitest';
import { actionBench, transferDefinition } from '../support/action-bench.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { ask } from '../support/journal-bench.ts';

const bench = actionBench();
const MOVE = { from: 1, to: 2, amount: '300.00' };

async function actionsOf(
  batch: string,
): Promise<{ id: number; state: string; why: string; generation: number; key: string }[]> {
  const { rows } = await bench.db.pool.query(
    'SELECT id, state, why, generation, key FROM madrugada.action WHERE batch_key = $1 ORDER BY id',
    [batch],
  );
  return rows;
}

async function only(batch: string): Promise<number> {
  const [action] = await actionsOf(batch);
  if (action === undefined) throw new Error('nothing was proposed');
  return action.id;
}

async function alerts(batch: string): Promise<string[]> {
  const { rows } = await bench.db.pool.query(
    'SELECT kind FROM madrugada.alert WHERE batch_key = $1 AND acknowledged_at IS NULL ORDER BY id',
    [batch],
  );
  return rows.map(({ kind }) => kind);
}

async function task(batch: string): Promise<{ state: string; waiting_for: string; slot: string; not_before: unknown }> {
  const { rows } = await bench.db.pool.query('SELECT * FROM madrugada.task WHERE batch_key = $1', [batch]);
  return rows[0];
}

test('a proposal parks its task without slot or lease; approved, it wakes, pays nothing again, executes once, and is read back', async () => {
  const batch = await bench.allow(await loadTestBatch(bench.db));
  const transfer = transferDefinition();
  const run = async (task: Parameters<Parameters<typeof bench.start>[3]>[0]) => {
    await ask(task, 'may I?');
    const outcome = await task.action(transfer, MOVE);
    return { outcome, after: await ask(task, 'done') };
  };
  const first = await bench.workers.add();
  expect((await (await bench.start(first, batch, [transfer], run)).result).ending).toBe('parked');
  expect(await task(batch)).toMatchObject({ state: 'pending', waiting_for: 'approval', slot: null });
  expect(await alerts(batch)).toEqual(['approval']);
  expect(await bench.balances()).toEqual(['1000.00', '50.00', '0.00']);
  await first.leave();

  const id = await only(batch);
  expect((await bench.action(id)).lineage).toEqual([1]);
  expect(await bench.decide(id)).toMatchObject({ outcome: 'approved' });
  expect(await alerts(batch)).toEqual([]);

  const second = await bench.workers.add();
  const result = await (await bench.start(second, batch, [transfer], run)).result;
  expect(result).toMatchObject({ ending: 'completed', replayedCalls: 1, message: undefined });
  const done = await bench.action(id);
  expect(done.state, JSON.stringify(done)).toBe('committed');
  expect(await bench.balances()).toEqual(['700.00', '350.00', '0.00']);
  expect(bench.provider.exchanges).toHaveLength(2);
  const { state, evidence } = await bench.action(id);
  expect({ state, evidence }).toMatchObject({ state: 'committed', evidence: expect.anything() });
  const { rows } = await bench.db.pool.query('SELECT result FROM madrugada.task WHERE batch_key = $1', [batch]);
  expect(rows[0].result.outcome).toEqual({ id, state: 'committed' });
});

test('the balance was 1000 when it was approved and is 500 now: no transfer, an alert, and a new proposal with a key of its own', async () => {
  const batch = await bench.allow(await loadTestBatch(bench.db));
  const transfer = transferDefinition();
  const move = { ...MOVE, amount: '800.00' };
  const worker = await bench.workers.add();
  const outcomes: string[] = [];
  const run = async (task: Parameters<Parameters<typeof bench.start>[3]>[0]) => {
    const first = await task.action(transfer, move);
    outcomes.push(first.state);
    return (await task.action(transfer, move)).state;
  };
  await (await bench.start(worker, batch, [transfer], run)).result;
  const id = await only(batch);
  await bench.decide(id);
  await bench.setBalance(1, 500);
  expect((await (await bench.start(worker, batch, [transfer], run)).result).ending).toBe('parked');
  expect(outcomes).toEqual(['aborted']);
  expect(await bench.balances()).toEqual(['500.00', '50.00', '0.00']);
  expect(await alerts(batch)).toEqual(['action aborted', 'approval']);
  const [old, anew] = await actionsOf(batch);
  expect(anew).toMatchObject({ state: 'proposed', generation: 2 });
  expect(anew?.key).not.toBe(old?.key);

  await bench.setBalance(1, 900);
  await bench.decide(anew?.id ?? 0);
  expect((await (await bench.start(worker, batch, [transfer], run)).result).ending).toBe('completed');
  expect(await bench.balances()).toEqual(['100.00', '850.00', '0.00']);
});

test('a task that fails for good leaves nothing behind: what it committed is undone, the last first, before it counts as failed', async () => {
  const batch = await bench.allow(await loadTestBatch(bench.db, { maxAttempts: 1 }));
  const transfer = transferDefinition({ approval: 'none' });
  const worker = await bench.workers.add();
  const run = async (task: Parameters<Parameters<typeof bench.start>[3]>[0]) => {
    await task.action(transfer, MOVE);
    await task.action(transfer, { from: 2, to: 3, amount: '350.00' });
    throw new Error('the third step is impossible');
  };
  await (await bench.start(worker, batch, [transfer], run)).result;
  expect(await bench.balances()).toEqual(['700.00', '0.00', '350.00']);
  expect((await task(batch)).state).toBe('pending');
  expect((await (await bench.start(worker, batch, [transfer], run)).result).ending).toBe('failed');
  expect(await bench.balances()).toEqual(['1000.00', '50.00', '0.00']);
  expect((await actionsOf(batch)).map(({ state }) => state)).toEqual(['rolled_back', 'rolled_back']);
  expect(await task(batch)).toMatchObject({ state: 'failed', failure: { message: 'the third step is impossible' } });
});

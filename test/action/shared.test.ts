import { describe, expect, test } from 'vitest';
import { NoEffect, type ReadBack } from '../../src/action/define-action.ts';
import type { Task } from '../../src/agent/task.ts';
import { closeBatch, stopBatch } from '../../src/batch/change-batch.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { actionBench, transferDefinition } from '../support/action-bench.ts';
import { loadTestBatch, type RunningAttempt, type TestWorker, taskOf } from '../support/attempts.ts';
import { moveClock } from '../support/move-clock.ts';

const bench = actionBench();
const MOVE = { from: 1, to: 2, amount: '300.00' };
/** Workers, each with two tasks at a time. */
const WORKERS = 10;

type Transfer = ReturnType<typeof transferDefinition>;

/** The same item in several versions of one batch. */
async function loadVersions(id: string, count: number, maxAttempts = 3): Promise<string[]> {
  const batches: string[] = [];
  for (let n = 1; n <= count; n += 1)
    batches.push(await bench.allow(await loadTestBatch(bench.db, { id, version: `v${n}`, maxAttempts })));
  return batches;
}

async function actionsOf(batch: string): Promise<{ id: number; state: string; why: string; execution: number }[]> {
  const [id] = batch.split(':');
  const { rows } = await bench.db.pool.query(
    'SELECT id, state, why, execution FROM madrugada.action WHERE batch_id = $1 ORDER BY id',
    [id],
  );
  return rows;
}

/** A person gives up what a batch has left, and closes it. */
async function giveUp(batch: string): Promise<void> {
  const client = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  try {
    await stopBatch(client, batch, { by: 'ana', reason: 'v2 is better' });
    await closeBatch(client, batch, { by: 'ana', reason: 'v2 is better' }, true);
  } finally {
    await client.end();
  }
}

function gate(): { open(): void; passed: Promise<void> } {
  let open: () => void = () => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, passed };
}

/** A transfer at a bank that takes no keys: executed twice, it moves the money twice. */
function keyless(changes: Partial<Transfer> = {}): Transfer {
  let made = 0;
  const usual = transferDefinition({ approval: 'none', ...changes });
  return {
    ...usual,
    enforcesKey: false,
    settleMs: 1,
    execute: async (args, before, { key, signal }) => {
      made += 1;
      return usual.execute(args, before, { key: made === 1 ? key : `${key}/${made}`, signal });
    },
    ...changes,
  };
}

test('twenty tasks of twenty versions at once on one approved action: one execution, one effect, and the same outcome for all', {
  timeout: 120_000,
}, async () => {
  const batches = await loadVersions('shared', 2 * WORKERS);
  const [first = ''] = batches;
  const allHaveLooked = gate();
  const othersWait = gate();
  let looks = 0;
  let executions = 0;
  const usual = keyless({ approval: 'person' });
  const transfer: Transfer = {
    ...usual,
    async precondition(...given) {
      looks += 1;
      if (looks === batches.length) allHaveLooked.open();
      await allHaveLooked.passed; // nobody begins before all have seen that it is approved
      return usual.precondition(...given);
    },
    async execute(...given) {
      executions += 1;
      await othersWait.passed;
      return usual.execute(...given);
    },
  };
  const run = async (task: Task) => (await task.action(transfer, MOVE)).id;
  const workers: TestWorker[] = [];
  for (let n = 0; n < WORKERS; n += 1) workers.push(await bench.workers.add());
  const startAll = async () => {
    const started: RunningAttempt[] = [];
    for (const [n, batch] of batches.entries()) {
      const worker = workers[n % WORKERS];
      if (worker && (await taskOf(bench.db, batch)).state === 'pending')
        started.push(await bench.start(worker, batch, [transfer], run));
    }
    return started;
  };
  for (const { result } of await startAll()) expect((await result).ending).toBe('parked');
  const [action] = await actionsOf(first);
  if (action === undefined) throw new Error('nothing was proposed');
  expect((await bench.decide(action.id)).outcome).toBe('approved');

  let parked = 0;
  const rounds = await startAll();
  const ends = rounds.map(async ({ result }) => {
    const { ending } = await result;
    if (ending === 'parked') parked += 1;
    if (parked === batches.length - 1) othersWait.open();
    return ending;
  });
  expect((await Promise.all(ends)).sort()).toEqual(['completed', ...Array(batches.length - 1).fill('parked')]);
  for (const { result } of await startAll()) expect((await result).ending).toBe('completed');

  expect(executions).toBe(1);
  expect(await bench.movements(1)).toBe(1);
  expect(await bench.balances()).toEqual(['700.00', '350.00', '0.00']);
  expect(await actionsOf(first)).toMatchObject([{ id: action.id, state: 'committed', execution: 1 }]);
  const results = await Promise.all(batches.map(async (batch) => (await taskOf(bench.db, batch)).result));
  expect(new Set(results)).toEqual(new Set([action.id]));
});

test('an executor that was overtaken and finds that it has done nothing does not say so of the one that overtook it', async () => {
  const [v1 = '', v2 = ''] = await loadVersions('overtaken', 2);
  const overtaken = gate();
  const begun = gate();
  let executions = 0;
  let isReadable = true;
  const usual = transferDefinition({ approval: 'none' });
  const transfer = transferDefinition({
    approval: 'none',
    async execute(...given) {
      executions += 1;
      if (executions === 1) {
        begun.open();
        await overtaken.passed;
        throw new NoEffect('it woke up too late');
      }
      isReadable = false;
      return usual.execute(...given);
    },
    async verify(...look): Promise<ReadBack> {
      if (!isReadable) throw new Error('the bank does not answer');
      return usual.verify(...look);
    },
  });
  const run = async (task: Task) => (await task.action(transfer, MOVE)).state;
  const [slow, quick] = [await bench.workers.add(), await bench.workers.add()];
  const first = await bench.start(slow, v1, [transfer], run);
  await begun.passed;
  await moveClock(bench.db, '91 seconds'); // its deadline, and the taker's 30 seconds
  expect((await (await bench.start(quick, v2, [transfer], run)).result).ending).toBe('parked');
  expect(await actionsOf(v1)).toMatchObject([{ state: 'in_flight', execution: 2 }]);

  overtaken.open();
  await first.result;
  expect(await actionsOf(v1)).toMatchObject([{ state: 'in_flight', execution: 2 }]);
  isReadable = true;
  await moveClock(bench.db, '31 seconds');
  expect((await (await bench.start(quick, v2, [transfer], run)).result).ending).toBe('completed');
  expect(await actionsOf(v1)).toMatchObject([{ state: 'committed', execution: 2 }]);
  expect(await bench.movements(1)).toBe(1);
});

test('the same arguments twice at once in one task are one action, executed once', async () => {
  const [batch = ''] = await loadVersions('twice', 1);
  const transfer = keyless();
  const worker = await bench.workers.add();
  const attempt = await bench.start(worker, batch, [transfer], async (task) => {
    const outcomes = await Promise.all([task.action(transfer, MOVE), task.action(transfer, MOVE)]);
    return outcomes.map(({ state }) => state);
  });
  expect((await attempt.result).ending).toBe('completed');
  expect(await bench.movements(1)).toBe(1);
  expect((await taskOf(bench.db, batch)).result).toEqual(['committed', 'committed']);
});

describe('when a task fails that shares its action with another version’s', () => {
  const doing = (transfer: Transfer) => async (task: Task) => (await task.action(transfer, MOVE)).state;
  const failing = (transfer: Transfer) => async (task: Task) => {
    await task.action(transfer, MOVE);
    throw new Error('the next step is impossible');
  };

  test('what the other relies on is left to a person, not undone', async () => {
    const [v1 = '', v2 = ''] = await loadVersions('relied-on', 2, 1);
    const transfer = transferDefinition({ approval: 'none' });
    const worker = await bench.workers.add();
    await (await bench.start(worker, v1, [transfer], failing(transfer))).result;
    expect((await (await bench.start(worker, v2, [transfer], doing(transfer))).result).ending).toBe('completed');
    await (await bench.start(worker, v1, [transfer], failing(transfer))).result;
    expect((await taskOf(bench.db, v1)).state).toBe('failed');
    const [action] = await actionsOf(v1);
    expect(action).toMatchObject({ state: 'needs_person', why: expect.stringContaining('relied-on:1:v2') });
    expect((await taskOf(bench.db, v1)).failure?.message).toContain(`left to a person: action ${action?.id}`);
    expect(await bench.balances()).toEqual(['700.00', '350.00', '0.00']);
  });

  test('it undoes what it has executed, though another version has proposed it', async () => {
    const [v1 = '', v2 = ''] = await loadVersions('proposed-before', 2, 1);
    const transfer = transferDefinition();
    const worker = await bench.workers.add();
    await (await bench.start(worker, v1, [transfer], doing(transfer))).result;
    const [action] = await actionsOf(v1);
    await (await bench.start(worker, v2, [transfer], failing(transfer))).result;
    await giveUp(v1); // what it has proposed stands for the other
    await bench.decide(action?.id ?? 0);
    for (let n = 0; n < 2; n += 1) await (await bench.start(worker, v2, [transfer], failing(transfer))).result;
    expect((await taskOf(bench.db, v2)).state).toBe('failed');
    expect((await actionsOf(v1))[0]?.state).toBe('rolled_back');
    expect(await bench.balances()).toEqual(['1000.00', '50.00', '0.00']);
  });
});

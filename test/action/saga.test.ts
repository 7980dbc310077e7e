import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { type AnyAction, type Rollback, UndoRefused } from '../../src/action/define-action.ts';
import type { Task } from '../../src/agent/task.ts';
import { resumeBatch, stopBatch } from '../../src/batch/change-batch.ts';
import { retryTask } from '../../src/batch/retry-task.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { actionBench, transferDefinition } from '../support/action-bench.ts';
import { type BatchOptions, loadTestBatch, type TestWorker, taskOf } from '../support/attempts.ts';
import { startCommand } from '../support/command.ts';
import { ask } from '../support/journal-bench.ts';
import { takeAway } from '../support/leases.ts';
import { moveClock } from '../support/move-clock.ts';
import { testFolder } from '../support/test-folder.ts';
import { until } from '../support/until.ts';

const bench = actionBench();
const THREE = [
  { from: 1, to: 2, amount: '300.00' },
  { from: 2, to: 3, amount: '350.00' },
  { from: 3, to: 1, amount: '100.00' },
];
const [FIRST, SECOND] = THREE as [(typeof THREE)[0], (typeof THREE)[0]];
const AT_FIRST = ['1000.00', '50.00', '0.00'];
const AGENT = fileURLToPath(new URL('../support/agents/three-transfers.ts', import.meta.url));

async function load(options: BatchOptions = {}): Promise<string> {
  return bench.allow(await loadTestBatch(bench.db, { maxAttempts: 1, ...options }));
}

interface ActionLine {
  id: number;
  state: string;
  undo: number;
  why: string;
  generation: number;
  key: string;
}

async function actionsOf(batch: string): Promise<ActionLine[]> {
  const { rows } = await bench.db.pool.query(
    'SELECT id, state, undo, why, generation, key FROM madrugada.action WHERE batch_key = $1 ORDER BY id',
    [batch],
  );
  return rows;
}

async function alertsOf(id: number | undefined): Promise<string[]> {
  const { rows } = await bench.db.pool.query(
    'SELECT kind FROM madrugada.alert WHERE action_id = $1 AND acknowledged_at IS NULL ORDER BY id',
    [id],
  );
  return rows.map(({ kind }) => kind);
}

async function asOperator<T>(work: (client: Awaited<ReturnType<typeof openClient>>) => Promise<T>): Promise<T> {
  const client = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** A transfer whose undo is `undo`; the kind's own for those it returns undefined for. */
function transferUndone(undo: (args: (typeof THREE)[0]) => Promise<void> | undefined): AnyAction {
  const usual = transferDefinition({ approval: 'none' });
  const rollback = usual.rollback as Extract<Rollback<(typeof THREE)[0], never, never>, { kind: 'in-band' }>;
  return {
    ...usual,
    rollback: {
      ...rollback,
      undo: async (what: never, context: never) => {
        const { args } = what as { args: (typeof THREE)[0] };
        await (undo(args) ?? rollback.undo(what, context));
      },
    },
  } as AnyAction;
}

function failing(transfer: AnyAction, transfers: typeof THREE) {
  return async (task: Task) => {
    for (const one of transfers) await task.action(transfer, one);
    throw new Error('the next step is impossible');
  };
}

/** Attempts until the task has failed, each as late as what it waits for asks; returns how many there were. */
async function attemptUntilFailed(
  worker: TestWorker,
  batch: string,
  transfer: AnyAction,
  run: (task: Task) => unknown,
): Promise<number> {
  for (let n = 1; n <= 20; n += 1) {
    await (await bench.start(worker, batch, [transfer], run)).result;
    if ((await taskOf(bench.db, batch)).state === 'failed') return n;
    await moveClock(bench.db, '31 seconds');
  }
  throw new Error('the task does not come to an end');
}

/** The bank's own ledger: what moved, step by step, without regard to the order of the two accounts of one step. */
async function ledger(): Promise<string[]> {
  const { rows } = await bench.bank.pool.query<{ account: number; amount: string }>(
    'SELECT account, amount FROM bank.movement ORDER BY no',
  );
  const steps: string[] = [];
  for (let n = 0; n < rows.length; n += 2)
    steps.push(
      rows
        .slice(n, n + 2)
        .map(({ account, amount }) => `${account}:${amount}`)
        .sort()
        .join(' '),
    );
  return steps;
}

test('killed half-way through the undoing of three, the rest is undone in reverse, each once', {
  timeout: 120_000,
}, async () => {
  const batch = await load({ agent: AGENT, inputs: [{ transfers: THREE }] });
  const mark = join(testFolder(), 'struck');
  const environment = {
    DATABASE_URL: bench.db.url,
    BANK_URL: bench.bank.url,
    MADRUGADA_FAILPOINT: `action.undo.after:kill(${mark})@2`,
  };
  const first = startCommand(['worker', '--slot', `${batch}/1`, '--batch', batch], { environment });
  expect((await first.result).signal).toBe('SIGKILL');
  expect((await actionsOf(batch)).map(({ state }) => state)).toEqual(['committed', 'rolling_back', 'rolled_back']);
  expect((await taskOf(bench.db, batch)).state).not.toBe('failed');

  const second = startCommand(['worker', '--slot', `${batch}/2`, '--batch', batch], { environment });
  try {
    await until('the task has failed', async () => (await taskOf(bench.db, batch)).state === 'failed');
  } finally {
    second.process.kill('SIGTERM');
    await second.result;
  }
  expect((await actionsOf(batch)).map(({ state, undo }) => `${state} ${undo}`)).toEqual(Array(3).fill('rolled_back 1'));
  expect((await taskOf(bench.db, batch)).failure).toMatchObject({ message: 'the fourth step is impossible' });
  expect(await bench.balances()).toEqual(AT_FIRST);
  expect(await ledger()).toEqual([
    '1:-300.00 2:300.00',
    '2:-350.00 3:350.00',
    '1:100.00 3:-100.00',
    '1:-100.00 3:100.00',
    '2:350.00 3:-350.00',
    '1:300.00 2:-300.00',
  ]);
});

test('an undo that fails every time is tried five times and left to a person; those before it are undone all the same', async () => {
  const batch = await load();
  let tries = 0;
  const transfer = transferUndone(({ from }) => {
    if (from !== 3) return undefined;
    tries += 1;
    return Promise.reject(new Error('the bank is closed for refunds'));
  });
  const worker = await bench.workers.add();
  const independent = [FIRST, { from: 3, to: 4, amount: '0.00' }];
  await bench.bank.pool.query('INSERT INTO bank.account (id, balance) VALUES (4, 7)');
  await attemptUntilFailed(worker, batch, transfer, failing(transfer, independent));

  const [early, late] = await actionsOf(batch);
  expect(tries).toBe(5);
  expect(late).toMatchObject({ state: 'needs_person', undo: 5 });
  expect(await alertsOf(late?.id)).toContain('action needs person');
  expect(early).toMatchObject({ state: 'rolled_back', undo: 1 });
  expect((await bench.balances()).slice(0, 3)).toEqual(AT_FIRST);
  expect((await taskOf(bench.db, batch)).failure?.message).toBe(
    `the next step is impossible; not undone, left to a person: action ${late?.id} (transfer)`,
  );
});

test('a target that cannot be read before the undo counts as a failing undo, and comes to a person, too', async () => {
  const batch = await load();
  const usual = transferDefinition({ approval: 'none' });
  let isClosed = false;
  const transfer = transferDefinition({
    approval: 'none',
    verify: (args, before, effect, context) => {
      if (isClosed && args.from === 2) throw new Error('the bank does not answer'); // at once, not by a promise
      return usual.verify(args, before, effect, context);
    },
  });
  const worker = await bench.workers.add();
  await attemptUntilFailed(worker, batch, transfer, async (task) => {
    await task.action(transfer, FIRST);
    await task.action(transfer, SECOND);
    isClosed = true;
    throw new Error('the next step is impossible');
  });
  const [early, late] = await actionsOf(batch);
  expect(late).toMatchObject({ state: 'needs_person', undo: 5 });
  expect(await alertsOf(late?.id)).toContain('action needs person');
  // what the second has moved stands, so the first is no longer as it was left
  expect(early?.state).toBe('needs_person');
  expect(await bench.balances()).toEqual(['700.00', '0.00', '350.00']);
});

test('a target changed since is left to a person, and not overwritten', async () => {
  const batch = await load();
  const transfer = transferDefinition({ approval: 'none' });
  const worker = await bench.workers.add();
  const run = failing(transfer, [FIRST]);
  await (await bench.start(worker, batch, [transfer], run)).result;
  await bench.setBalance(2, 123);
  await attemptUntilFailed(worker, batch, transfer, run);
  const [action] = await actionsOf(batch);
  expect(action?.state, action?.why).toBe('needs_person');
  expect(await alertsOf(action?.id)).toContain('action needs person');
  expect(await bench.balances()).toEqual(['700.00', '123.00', '0.00']);
});

test('a target that changes between the look and the undo is not overwritten either', async () => {
  const batch = await load();
  const transfer = transferUndone(() => Promise.reject(new UndoRefused('account 2 is somebody else’s now')));
  const worker = await bench.workers.add();
  await attemptUntilFailed(worker, batch, transfer, failing(transfer, [FIRST]));
  expect((await actionsOf(batch))[0]).toMatchObject({ state: 'needs_person', undo: 1 });
  expect(await bench.balances()).toEqual(['700.00', '350.00', '0.00']);
});

test('a task whose last attempt is lost undoes what it has committed before it fails', async () => {
  const batch = await load();
  await bench.db.pool.query('UPDATE madrugada.batch SET max_losses = 1 WHERE batch_key = $1', [batch]);
  const transfer = transferDefinition({ approval: 'none' });
  const worker = await bench.workers.add();
  let release: () => void = () => undefined;
  const lost = await bench.start(worker, batch, [transfer], async (task) => {
    await task.action(transfer, FIRST);
    await new Promise<void>((resolve) => {
      release = resolve;
    });
  });
  await until('the action is committed', async () => (await actionsOf(batch))[0]?.state === 'committed');
  await until('its outcome is on record', async () => {
    const { rows } = await bench.db.pool.query('SELECT FROM madrugada.step_record WHERE batch_key = $1', [batch]);
    return rows.length === 1;
  });
  await takeAway(bench.db, lost.lease.taskId);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', failure: null });
  release();
  expect((await lost.result).ending).toBe('lost');

  await (await bench.start(worker, batch, [transfer], failing(transfer, [FIRST]))).result;
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'failed', failure: { kind: 'lost' } });
  expect((await actionsOf(batch)).map(({ state }) => state)).toEqual(['rolled_back']);
  expect(await bench.balances()).toEqual(AT_FIRST);
});

test('a person’s retry proposes anew with a key of its own, and the calls before and after it are free', async () => {
  const batch = await load({ maxAttempts: 2 });
  const transfer = transferDefinition({ approval: 'none' });
  const worker = await bench.workers.add();
  let fails = true;
  const run = async (task: Task) => {
    await ask(task, 'before');
    await task.action(transfer, FIRST);
    await ask(task, 'after');
    if (fails) throw new Error('the next step is impossible');
  };
  await attemptUntilFailed(worker, batch, transfer, run);
  expect(await bench.balances()).toEqual(AT_FIRST);
  const { rows } = await bench.db.pool.query('SELECT key FROM madrugada.task WHERE batch_key = $1', [batch]);
  await asOperator((client) => retryTask(client, rows[0].key, { by: 'ana', reason: 'the next step is possible now' }));

  const anewOnce = await (await bench.start(worker, batch, [transfer], run)).result;
  expect(anewOnce).toMatchObject({ message: 'the next step is impossible', replayedCalls: 2 });
  fails = false; // and what was proposed anew replays like everything else
  const result = await (await bench.start(worker, batch, [transfer], run)).result;
  expect(result).toMatchObject({ ending: 'completed', replayedCalls: 2 });
  expect(bench.provider.requestCount).toBe(2);
  const [old, anew] = await actionsOf(batch);
  expect([old?.state, anew?.state, anew?.generation]).toEqual(['rolled_back', 'committed', 2]);
  expect(anew?.key).not.toBe(old?.key);
  expect(await bench.balances()).toEqual(['700.00', '350.00', '0.00']);
});

test('a stop halts the undoing between two actions, and nothing more is undone until somebody resumes', async () => {
  const batch = await load();
  const stop = () => asOperator((client) => stopBatch(client, batch, { by: 'ana', reason: 'wait' }));
  const usual = transferDefinition({ approval: 'none' });
  let isStopped = false;
  const transfer = transferDefinition({
    approval: 'none',
    verify: async (args, before, effect, context) => {
      if (args.from === 1 && undoing && !isStopped) {
        isStopped = true;
        await stop();
      }
      return usual.verify(args, before, effect, context);
    },
  });
  let undoing = false;
  const worker = await bench.workers.add();
  const run = failing(transfer, [FIRST, SECOND]);
  await (await bench.start(worker, batch, [transfer], run)).result;
  undoing = true;
  expect((await (await bench.start(worker, batch, [transfer], run)).result).ending).toBe('stopped');
  expect((await actionsOf(batch)).map(({ state }) => state)).toEqual(['committed', 'rolled_back']);
  expect(await worker.tryClaim(batch)).toBeUndefined();

  await asOperator((client) => resumeBatch(client, batch, { by: 'ana', reason: 'go on' }));
  await attemptUntilFailed(worker, batch, transfer, run);
  expect((await actionsOf(batch)).map(({ state }) => state)).toEqual(['rolled_back', 'rolled_back']);
  expect(await bench.balances()).toEqual(AT_FIRST);
});

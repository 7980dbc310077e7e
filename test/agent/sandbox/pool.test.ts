import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { RunLost } from '../../../src/agent/run-lost.ts';
import { packContext } from '../../../src/agent/sandbox/pack-context.ts';
import type { ThreadData, ToThread } from '../../../src/agent/sandbox/protocol.ts';
import { Sandbox, SandboxBroken } from '../../../src/agent/sandbox/sandbox.ts';
import { SandboxPool } from '../../../src/agent/sandbox/sandbox-pool.ts';
import { SandboxThread } from '../../../src/agent/sandbox/sandbox-thread-handle.ts';
import { echo, openSandbox, runTurns, SETTINGS } from './sandboxes.ts';

const ENDLESS = "/^(a+)+$/.test('a'.repeat(40) + 'b')"; // the engine's own loop, in which no step is counted

let pools: SandboxPool[] = [];
afterEach(async () => {
  await Promise.all(pools.map((pool) => pool.close()));
  pools = [];
});

function newPool(threads: number, hardLimitMs: number): SandboxPool {
  const pool = new SandboxPool({ threads, hardLimitMs });
  pools.push(pool);
  return pool;
}

test('Sandboxes of another thread go on while one thread is blocked', async () => {
  const pool = newPool(2, 30_000);
  const blocked = openSandbox(pool);
  const neighbour = openSandbox(pool);
  let isOver = false;
  const turn = blocked.run(1, [ENDLESS]).finally(() => {
    isOver = true;
  });
  turn.catch(() => undefined);

  const reports = await runTurns(neighbour, ['var n = 1', "await llm('x')", 'n + 1']);

  expect(reports.map(({ output }) => output)).toEqual(['', '=> re: x\n', '=> 2\n']);
  expect(isOver).toBe(false);
});

test('Of a thread that is ended the culprit is broken, the neighbours are lost, and other threads go on', async () => {
  const pool = newPool(2, 1000);
  const culprit = openSandbox(pool);
  const elsewhere = openSandbox(pool);
  const neighbour = openSandbox(pool); // the third of two threads: beside the first
  await Promise.all([runTurns(neighbour, ['var n = 1']), runTurns(elsewhere, ['var n = 2'])]);

  const ends = await Promise.allSettled([culprit.run(1, [ENDLESS]), neighbour.run(2, ["await llm('never heard')"])]);

  expect(ends.map((end) => end.status === 'rejected' && end.reason)).toEqual([
    new SandboxBroken('the code ran for 1 s where it could not be stopped, and its sandbox was ended'),
    new RunLost('the sandbox was lost with its thread'),
  ]);
  expect((await elsewhere.run(2, ['n'])).output).toBe('=> 2\n');
});

test('A neighbour that rests while its thread is ended hears of it at its next turn', async () => {
  const pool = newPool(1, 1000);
  const [culprit, neighbour] = [openSandbox(pool), openSandbox(pool)];
  await runTurns(neighbour, ['1']);

  await expect(culprit.run(1, [ENDLESS])).rejects.toBeInstanceOf(SandboxBroken);

  await expect(neighbour.run(2, ['1'])).rejects.toBeInstanceOf(RunLost);
  await expect(culprit.run(2, ['1'])).rejects.toBeInstanceOf(SandboxBroken);
});

test('After a thread was ended, a new one takes new sandboxes', async () => {
  const pool = newPool(1, 1000);
  await expect(openSandbox(pool).run(1, [ENDLESS])).rejects.toBeInstanceOf(SandboxBroken);

  expect((await runTurns(openSandbox(pool), ['1 + 1']))[0]?.output).toBe('=> 2\n');
});

test('A sandbox that its own code has broken leaves its thread and its neighbours alone', async () => {
  const pool = newPool(1, 30_000);
  const neighbour = openSandbox(pool);
  await runTurns(neighbour, ['var n = 1']);
  const broken = openSandbox(pool);
  // no memory is left to hand the answer in
  const full =
    "var a = []; for (const size of [1e5, 1e3, 10]) try { for (;;) a.push(new Uint8Array(size)) } catch {} await llm('x')";

  await expect(runTurns(broken, [full, full])).rejects.toBeInstanceOf(SandboxBroken);

  expect((await neighbour.run(2, ['n'])).output).toBe('=> 1\n');
  await expect(broken.run(3, ['1'])).rejects.toBeInstanceOf(SandboxBroken);
});

test('A guest gets about 64 MB, whatever it puts there', async () => {
  const pool = newPool(1, 30_000);
  const megabytes = async (one: string) => {
    const sandbox = openSandbox(pool);
    const [report] = await runTurns(sandbox, [
      `var n = 0; var a = []; try { for (;;) { a.push(${one}); n++ } } catch (error) { a = error; throw error } finally { print(n) }`,
    ]);
    sandbox.close();
    expect(report?.failure).toMatch(/out of memory/);
    return Number.parseInt(report?.output ?? '', 10);
  };

  for (const one of [
    'new Uint8Array(1e6)',
    "'x'.repeat(1e6 - 100) + n",
    'new ArrayBuffer(1e6)',
    'new Array(125_000).fill(n)',
  ]) {
    const used = await megabytes(one);

    expect([one, used > 50 && used <= 68]).toEqual([one, true]);
  }
});

test('A guest has room for its whole context beside its own 64 MB', async () => {
  const pool = newPool(1, 30_000);
  const sandbox = openSandbox(pool, { context: 'ä'.repeat(10_000_000) });
  const [report] = await runTurns(sandbox, [
    'const all = context; var a = []; for (let i = 0; i < 50; i++) a.push(new Uint8Array(1e6)); all.length',
  ]);

  expect(report?.output).toBe('=> 10000000\n');
});

test('The memory of closed sandboxes is given back', async () => {
  const thread = new Worker(new URL('../../../src/agent/sandbox/sandbox-thread.ts', import.meta.url), {
    workerData: { words: new Int32Array(new SharedArrayBuffer(8)) } satisfies ThreadData,
  });
  const context = packContext('x');
  const tell = (message: ToThread) => thread.postMessage(message);
  let most = 0;
  for (let sandbox = 1; sandbox <= 40; sandbox += 1) {
    tell({ type: 'open', sandbox, settings: SETTINGS, context });
    tell({
      type: 'run',
      sandbox,
      turn: 1,
      blocks: ['var a = []; for (let i = 0; i < 20; i++) a.push(new ArrayBuffer(1e6))'],
    });
    expect((await once(thread, 'message'))[0]).toMatchObject({
      type: 'ended',
      sandbox,
      report: { failure: undefined },
    });
    tell({ type: 'close', sandbox });
    most = Math.max(most, (await thread.getHeapStatistics()).external_memory);
  }
  await thread.terminate();

  expect(most).toBeGreaterThan(64 * 2 ** 20); // one at least is counted
  expect(most).toBeLessThan(20 * 64 * 2 ** 20); // and never most of them
});

test('A closed sandbox makes room on its thread', async () => {
  const pool = newPool(2, 1000);
  const first = openSandbox(pool);
  const second = openSandbox(pool);
  first.close();
  const third = openSandbox(pool); // on the first one's thread
  await runTurns(third, ['1']);

  await expect(second.run(1, [ENDLESS])).rejects.toBeInstanceOf(SandboxBroken);

  expect((await third.run(2, ['2'])).output).toBe('=> 2\n');
});

test('A call of a sandbox that was closed meanwhile is answered to nobody', async () => {
  const pool = newPool(1, 30_000);
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  const { promise: answer, resolve: give } = Promise.withResolvers<string>();
  const closed = openSandbox(pool, {
    onCall: () => {
      ask();
      return answer;
    },
  });
  const neighbour = openSandbox(pool);
  void closed.run(1, ["await llm('x')"]);
  await asked;

  closed.close();
  give('late');

  expect((await runTurns(neighbour, ["await llm('y')"]))[0]?.output).toBe('=> re: y\n');
});

test('Closing the pool loses what is under way', async () => {
  const pool = newPool(1, 30_000);
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  const sandbox = openSandbox(pool, {
    onCall: () => {
      ask();
      return new Promise(() => undefined);
    },
  });
  const turn = sandbox.run(1, ["await llm('x')"]);
  turn.catch(() => undefined);
  await asked;

  await pool.close();

  await expect(turn).rejects.toBeInstanceOf(RunLost);
});

test('A thread that crashes outside of any guest loses all its sandboxes, and takes no others', async () => {
  const { promise: over, resolve: end } = Promise.withResolvers<SandboxThread>();
  const thread = new SandboxThread(end);
  const sandboxes = [1, 2].map((id) => new Sandbox(id, thread, echo));
  for (const sandbox of sandboxes)
    thread.add(sandbox, { type: 'open', sandbox: sandbox.id, settings: SETTINGS, context: packContext('x') });
  await Promise.all(sandboxes.map((sandbox) => runTurns(sandbox, ['1'])));

  thread.post(null as never); // what no code of ours posts

  expect(await over).toBe(thread);
  for (const sandbox of sandboxes) await expect(sandbox.run(2, ['1'])).rejects.toBeInstanceOf(RunLost);
});

test('A sandbox that cannot be opened is broken, and its neighbours go on', async () => {
  const pool = newPool(1, 30_000);
  const neighbour = openSandbox(pool);
  const sandbox = pool.open({ ...SETTINGS, seed: undefined as unknown as string }, packContext('x'), async () => '');

  await expect(sandbox.run(1, ['1'])).rejects.toBeInstanceOf(SandboxBroken);

  expect((await runTurns(neighbour, ['2']))[0]?.output).toBe('=> 2\n');
});

test('Many sandboxes on one thread take turns and keep apart', async () => {
  const pool = newPool(1, 30_000);
  const sandboxes = Array.from({ length: 20 }, () => openSandbox(pool));
  const outputs = await Promise.all(
    sandboxes.map(async (sandbox, index) => {
      const reports = await runTurns(sandbox, [
        `var mine = ${index}; globalThis.shared = mine`,
        "for (let i = 0; i < 5; i++) await llm('x'); mine += 100",
        '[mine, shared]',
      ]);
      return reports.at(-1)?.output;
    }),
  );

  expect(outputs).toEqual(sandboxes.map((_, index) => `=> [${index + 100}, ${index}]\n`));
});

test('Two sandboxes on one context do not see each other’s changes of built-ins', async () => {
  const pool = newPool(1, 30_000);
  const [one, other] = [openSandbox(pool), openSandbox(pool)];
  await runTurns(one, ["Array.prototype.map = () => 'mine'; globalThis.context2 = context"]);

  expect((await runTurns(other, ['[[1].map((n) => n), typeof context2]']))[0]?.output).toBe('=> [[1], "undefined"]\n');
});

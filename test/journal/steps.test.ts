import '../support/gate-environment.ts';
import { afterAll, expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { openAllGates, shutGate } from '../support/gates.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { stallCommits } from '../support/stalled-commit.ts';

const bench = journalBench();
afterAll(openAllGates);

/** Runs twice: the first time to its end and then a failure, the second time to completion. Returns what each run gave. */
async function twice<T>(run: (task: Task) => Promise<T>): Promise<T[]> {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const results: T[] = [];
  const attempt = async (task: Task) => {
    results.push(await run(task));
    if (results.length === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, attempt);
  const second = await worker.attempt(batch, attempt);
  expect(second.ending).toBe('completed');
  return results;
}

test('a step runs once in the life of a task and gives the same value on replay', async () => {
  let runs = 0;
  const results = await twice((task) => task.step('look up', () => ({ n: ++runs })));

  expect(results).toEqual([{ n: 1 }, { n: 1 }]);
  expect(runs).toBe(1);
});

test('the code gets a step’s value as JSON keeps it, in the first run as on replay', async () => {
  const results = await twice((task) => task.step<unknown>('dates', () => ({ at: new Date(0), none: undefined })));

  expect(results).toEqual([{ at: '1970-01-01T00:00:00.000Z' }, { at: '1970-01-01T00:00:00.000Z' }]);
});

test('a step’s value may hold NUL characters', async () => {
  const results = await twice((task) => task.step('nul', () => 'a\0b'));

  expect(results).toEqual(['a\0b', 'a\0b']);
});

test('a step that threw is not recorded and runs again', async () => {
  let runs = 0;
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const run = (task: Task) =>
    task.step('flaky', () => {
      runs += 1;
      if (runs === 1) throw new Error('not yet');
      return runs;
    });
  const first = await worker.attempt(batch, run);
  await worker.attempt(batch, run);

  expect(first).toMatchObject({ ending: 'failed', message: 'not yet' });
  expect((await taskOf(bench.db, batch)).result).toBe(2);
});

test('steps of one name are told apart by their order', async () => {
  let runs = 0;
  const step = (task: Task) => task.step('again', () => ++runs);
  const results = await twice(async (task) => [await step(task), await step(task)]);

  expect(results).toEqual([
    [1, 2],
    [1, 2],
  ]);
});

test('steps of one name in two scopes do not count each other', async () => {
  const results = await twice((task) =>
    Promise.all(['left', 'right'].map((name) => task.scope(name, (scoped) => scoped.step('which', () => name)))),
  );

  expect(results[1]).toEqual(['left', 'right']);
});

test('the time is the same on replay', async () => {
  const [first, second] = await twice(async (task) => [task.now(), task.now()]);

  expect(second).toEqual(first);
  expect(first?.[0]).toBeInstanceOf(Date);
});

test('random numbers are the same on replay, and differ from one another', async () => {
  const [first, second] = await twice(async (task) => [task.random(), task.random()]);

  expect(second).toEqual(first);
  expect(first?.[0]).not.toBe(first?.[1]);
});

test('a sleep waits, in the first run', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => {
    const start = performance.now();
    await task.sleep(60);
    return performance.now() - start >= 59;
  });

  expect((await taskOf(bench.db, batch)).result).toBe(true);
});

test('a sleep that is over is not slept again', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const HOUR_MS = 3_600_000;
  const { task, lease } = await worker.claim(batch);
  const identity = { scope: '', kind: 'sleep' as const, name: String(HOUR_MS), occurrence: 1 };
  await worker.env.writer.writeStep({ lease, ...identity, value: 'null' });
  const result = await worker.run(task, lease, (task) => task.sleep(HOUR_MS)).result;

  expect(result.ending).toBe('completed');
});

test('a timeout that won a race wins it again on replay', async () => {
  const [held, timedOut] = [bench.provider.arrival(1), Promise.withResolvers<void>()];
  bench.provider.hold();
  void Promise.all([held, timedOut.promise]).then(([exchange]) => exchange.message());
  const results = await twice((task) =>
    Promise.race([
      ask(task, 'slow'),
      task.timeout(30).catch((error: Error) => {
        timedOut.resolve();
        return error.message;
      }),
    ]),
  );

  expect(results).toEqual(['30 ms have passed', '30 ms have passed']);
  expect(bench.provider.requestCount).toBe(1);
});

test('no call commits without the values it was built from: they are written before its intent', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const steps = await stallCommits(bench.db, 'step_record', batch);
  const attempt = await worker.start(batch, (task) => ask(task, `number ${task.random()}`));
  await steps.stalled();
  const sentMeanwhile = bench.provider.requestCount;
  await steps.release();
  await attempt.result;

  expect(sentMeanwhile).toBe(0);
  const { rows } = await bench.db.pool.query(
    `SELECT i.sent_at >= s.recorded_at AS after FROM madrugada.call_intent i JOIN madrugada.step_record s USING (batch_key, task_id)
      WHERE batch_key = $1`,
    [batch],
  );
  expect(rows).toEqual([{ after: true }]);
});

test('the code gets a step’s value only when it is committed', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const gate = shutGate('journal.group.before');
  let value: number | undefined;
  const attempt = await worker.start(batch, async (task) => {
    value = await task.step('look up', () => 1);
  });
  await gate.reached();
  const before = value;
  gate.open();
  await attempt.result;

  expect([before, value]).toEqual([undefined, 1]);
});

test('a recorded step that the code does not ask for again is a divergence', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => {
    await task.step('look up', () => 1);
    throw new Error('the program breaks here');
  });
  const second = await worker.attempt(batch, () => 'an answer');

  expect(second).toMatchObject({ ending: 'failed', isFinal: true });
  expect(second.message).toContain('recorded step "look up" was not used');
});

const journaled: [string, (task: Task) => unknown][] = [
  ['a call', (task) => ask(task, 'one')],
  ['another step', (task) => task.step('inner', () => 1)],
  ['the time', (task) => task.now()],
  ['a random number', (task) => task.random()],
  ['a sleep', (task) => task.sleep(1)],
];

for (const [what, use] of journaled)
  test(`${what} inside of a step is refused when it is first tried, not found missing on replay`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add();
    const result = await worker.attempt(batch, (task) =>
      task.step('outer', async () => {
        await Promise.resolve();
        return await use(task);
      }),
    );

    expect(result.ending).toBe('failed');
    expect(result.message).toContain('inside of step outer');
    expect(bench.provider.requestCount).toBe(0);
  });

test('what follows a step is not inside of it', async () => {
  const results = await twice(async (task) => `${await task.step('outer', () => 1)}, ${await ask(task, 'one')}`);
  expect(results).toEqual(['1, answer to one', '1, answer to one']);
});

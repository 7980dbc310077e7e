import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { kindsOf, loadTestBatch, type TestWorker, taskOf } from '../support/attempts.ts';
import { runCommand, startCommand } from '../support/command.ts';
import { ask } from '../support/journal-bench.ts';
import { ANSWER, ANSWERED, recursiveBench } from '../support/recursive-bench.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { stallCommits } from '../support/stalled-commit.ts';
import { testFolder } from '../support/test-folder.ts';
import { until } from '../support/until.ts';

const recursive = recursiveBench();
const bench = recursive.journal;

/** A run of three turns with a call and a checkpoint each, in these states; it breaks at its end where told to. */
function threeTurns(states: string[], { breaks = false } = {}) {
  return async (task: Task) => {
    for (const [index, state] of states.entries()) {
      await ask(task, `question of turn ${index + 1}`);
      task.checkpoint(`turn ${index + 1}`, state);
    }
    if (breaks) throw new Error('the program breaks here');
    return states;
  };
}

/** What is recorded of checkpoints, in order. */
async function checkpointsOf(batch: string): Promise<[string, string][]> {
  const { rows } = await bench.db.pool.query<{ name: string; value: string }>(
    `SELECT name, convert_from(value, 'UTF8') AS value FROM madrugada.step_record
      WHERE batch_key = $1 AND kind = 'checkpoint' ORDER BY completed_no`,
    [batch],
  );
  return rows.map(({ name, value }) => [name, JSON.parse(value)]);
}

/** A batch whose first attempt went through the states a, b, c and then broke. */
async function brokenAfterThreeTurns(): Promise<{ batch: string; worker: TestWorker }> {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, threeTurns(['a', 'b', 'c'], { breaks: true }));
  return { batch, worker };
}

/** `madrugada retry`, by a person. */
function retry(key: string, ...more: string[]) {
  return runCommand(['retry', key, '--by', 'ana', '--reason', 'as it said', ...more], {
    environment: { DATABASE_URL: bench.db.url },
  });
}

test('a checkpoint is recorded once, and passed by a replay in the same state', async () => {
  const { batch, worker } = await brokenAfterThreeTurns();
  const second = await worker.attempt(batch, threeTurns(['a', 'b', 'c']));

  expect(second).toMatchObject({ ending: 'completed', replayedCalls: 3 });
  expect(await checkpointsOf(batch)).toEqual([
    ['turn 1', 'a'],
    ['turn 2', 'b'],
    ['turn 3', 'c'],
  ]);
});

test('a replay in another state ends as diverged at the first checkpoint that differs, and nothing is sent', async () => {
  const { batch, worker } = await brokenAfterThreeTurns();
  const second = await worker.attempt(batch, async (task) => {
    await threeTurns(['a', 'other', 'other'])(task);
    await ask(task, 'a new question');
  });

  expect(second).toMatchObject({ ending: 'failed', isFinal: true });
  expect(second.message).toMatch(/at checkpoint "turn 2" its state is not the one recorded there\. Nothing was paid\./);
  expect((await taskOf(bench.db, batch)).failure).toMatchObject({ kind: 'diverged', seq: 3 });
  expect(bench.provider.requestCount).toBe(3);
});

test('a run that asks for nothing more after a checkpoint that differs is not completed either', async () => {
  const { batch, worker } = await brokenAfterThreeTurns();
  const second = await worker.attempt(batch, threeTurns(['a', 'b', 'other']));

  expect(second.message).toContain('at checkpoint "turn 3"');
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'failed', result: null });
});

test('a person who sends the task on as it is told has it paid again from there, and from there only', async () => {
  const { batch, worker } = await brokenAfterThreeTurns();
  const { task } = await worker.start(batch, threeTurns(['a', 'other', 'c'])).then(async (attempt) => {
    await attempt.result;
    return attempt;
  });
  const told = /--pay-again-from (\d+)/.exec((await taskOf(bench.db, batch)).failure?.message ?? '')?.[1] ?? '';
  const sent = await retry(task.key, '--pay-again-from', told);
  const third = await worker.attempt(batch, threeTurns(['a', 'other', 'c']));

  expect(sent).toMatchObject({ code: 0 });
  expect(third).toMatchObject({ ending: 'completed', replayedCalls: 2 });
  expect(bench.provider.exchanges.map(({ prompt }) => prompt)).toEqual([
    'question of turn 1',
    'question of turn 2',
    'question of turn 3',
    'question of turn 3',
  ]);
});

test('what was recorded anew after that is what the next replay is held against', async () => {
  const { batch, worker } = await brokenAfterThreeTurns();
  const attempt = await worker.start(batch, threeTurns(['a', 'other', 'c']));
  await attempt.result;
  await retry(attempt.task.key, '--pay-again-from', '3');
  await worker.attempt(batch, threeTurns(['a', 'other', 'c'], { breaks: true }));
  const last = await worker.attempt(batch, threeTurns(['a', 'b', 'c']));

  expect(last.message).toContain('at checkpoint "turn 2"');
});

test('a checkpoint that was reached earlier among other calls than on replay can be passed as it is told, too', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  let runs = 0;
  const run = async (task: Task) => {
    runs += 1;
    const isFirst = runs === 1;
    const [checked, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const aside = (async () => {
      await ask(task, 'aside 1');
      if (isFirst) await checked.promise;
      const second = ask(task, 'aside 2');
      asked.resolve();
      await second;
    })();
    await ask(task, 'one');
    if (!isFirst) await asked.promise;
    task.checkpoint('between', isFirst ? 'a' : 'other');
    checked.resolve();
    await aside;
    await ask(task, 'two');
    if (isFirst) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  const second = await worker.start(batch, run);
  const { message } = await second.result;
  await retry(second.task.key, '--pay-again-from', /--pay-again-from (\d+)/.exec(message ?? '')?.[1] ?? '');
  const third = await worker.attempt(batch, run);

  expect(message).toContain('at checkpoint "between"');
  expect(third.message).toBeUndefined();
  expect(third.ending).toBe('completed');
});

test('checkpoints of one name in two scopes do not know of each other', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  let runs = 0;
  const run = async (task: Task) => {
    for (const name of ['left', 'right']) await task.scope(name, (scoped) => scoped.checkpoint('state', name));
    runs += 1;
    if (runs === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);

  expect((await worker.attempt(batch, run)).ending).toBe('completed');
});

test('a checkpoint inside of a step is refused when it is first tried', async () => {
  const batch = await loadTestBatch(bench.db);
  const result = await (await bench.workers.add()).attempt(batch, (task) =>
    task.step('outer', () => task.checkpoint('inner', 'a')),
  );
  expect(result).toMatchObject({ ending: 'failed', message: expect.stringContaining('inside of step outer') });
});

test('a document that was changed between two attempts stops the task at checkpoint "context", unpaid', async () => {
  const documents = testFolder();
  const text = 'The moon is made of rock.';
  writeFileSync(join(documents, 'context'), text);
  recursive.play({ 'What is it?': ['await llm("one");', 'nobody()'] });
  const batch = await recursive.load({ options: { documents, max_turns: '2' } });
  expect((await recursive.attempt(batch)).ending).toBe('failed');
  writeFileSync(join(documents, 'context'), text.replace('rock', 'salt')); // as long as before: no request would show it
  const second = await recursive.start(batch);
  const { message } = await second.result;
  const sentBefore = bench.provider.requestCount;

  expect(message).toMatch(
    /at checkpoint "context".*Restore the code and the documents it ran with, or .*--pay-again-from 1 /,
  );
  expect(sentBefore).toBe(3);

  recursive.play({ 'What is it?': [ANSWER.replace('rock', 'salt').replace('of rock', 'of salt')] });
  await retry(second.task.key, '--pay-again-from', '1');
  expect((await recursive.attempt(batch)).ending).toBe('completed');
  expect((await taskOf(bench.db, batch)).result).toEqual({
    text: 'salt',
    citations: ANSWERED.citations.map((citation) => ({ ...citation, quote: 'made of salt' })),
  });
});

test('values that nobody waits for share the commit of the next intent', async () => {
  const batch = await loadTestBatch(bench.db);
  await (await bench.workers.add()).attempt(batch, async (task) => {
    task.checkpoint('state', 'a');
    await ask(task, `number ${task.random()} at ${task.now().toISOString()}`);
  });

  const { rows } = await bench.db.pool.query(
    `SELECT s.kind, s.xmin::text = i.xmin::text AS together FROM madrugada.step_record s JOIN madrugada.call_intent i USING (batch_key, task_id)
      WHERE batch_key = $1 ORDER BY s.kind::text`,
    [batch],
  );
  expect(rows).toEqual(['checkpoint', 'now', 'random'].map((kind) => ({ kind, together: true })));
});

test('no intent commits before the values from before it, not even where they are too many for one group', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const steps = await stallCommits(bench.db, 'step_record', batch);
  const attempt = await worker.start(batch, async (task) => {
    for (let n = 1; n <= 300; n += 1) task.checkpoint(`state ${n}`, 'a');
    await ask(task, 'one');
  });
  await steps.stalled();
  const meanwhile = [bench.provider.requestCount, await kindsOf(bench.db, batch)];
  await steps.release();
  await attempt.result;

  expect(meanwhile).toEqual([0, []]);
  expect(await checkpointsOf(batch)).toHaveLength(300);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('values after the last call are committed before the task is completed', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const steps = await stallCommits(bench.db, 'step_record', batch);
  const attempt = await worker.start(batch, async (task) => {
    await ask(task, 'one');
    task.checkpoint('the end', 'a');
    return 'done';
  });
  await steps.stalled();
  const { state } = await taskOf(bench.db, batch);
  await steps.release();

  expect(state).toBe('running');
  expect((await attempt.result).ending).toBe('completed');
  expect(await checkpointsOf(batch)).toEqual([['the end', 'a']]);
});

/** A worker process on the agent that names its process as its state, killed at a point; then another, to the end of the task. */
async function killedAt(failpoint: string) {
  const provider = await startScriptedProvider();
  const batch = await loadTestBatch(bench.db, {
    agent: fileURLToPath(new URL('../support/agents/checkpointed.ts', import.meta.url)),
  });
  const start = (slot: string, at: string) =>
    startCommand(['worker', '--slot', `${batch}/${slot}`, '--batch', batch], {
      environment: { DATABASE_URL: bench.db.url, ANTHROPIC_BASE_URL: provider.url, MADRUGADA_FAILPOINT: at },
    });
  const first = start('1', failpoint);
  expect((await first.result).signal).toBe('SIGKILL');
  const second = start('2', '');
  await until('the task is over', async () => ['completed', 'failed'].includes((await taskOf(bench.db, batch)).state));
  second.process.kill('SIGTERM');
  await second.result;
  await provider.close();
  return { task: await taskOf(bench.db, batch), checkpoints: await checkpointsOf(batch), first, second, provider };
}

test.concurrent('a value lost with its process before the next intent is no loss: nothing was built on it', async () => {
  const { task, checkpoints, second } = await killedAt('journal.intent.before:kill@1');

  expect(task.state).toBe('completed');
  expect(checkpoints).toEqual([['process', String(second.process.pid)]]);
});

test.concurrent('a value from before an intent that was committed outlives its process', async () => {
  const { task, checkpoints, first, provider } = await killedAt('journal.intent.after:kill@1');

  expect(checkpoints).toEqual([['process', String(first.process.pid)]]);
  expect(task.failure?.message).toContain('at checkpoint "process"');
  expect(provider.requestCount).toBe(0);
});

test('the time and random numbers from before a call are the same when its task is resumed', async () => {
  const batch = await loadTestBatch(bench.db);
  const seen: unknown[] = [];
  const run = async (task: Task) => {
    const values = [task.now().toISOString(), task.random(), task.random()];
    await ask(task, JSON.stringify(values));
    seen.push([...values, task.random()]);
    if (seen.length === 1) throw new Error('the program breaks here');
  };
  await (await bench.workers.add()).attempt(batch, run);
  await (await bench.workers.add()).attempt(batch, run);

  expect(seen[1]).toEqual(seen[0]);
  expect(bench.provider.requestCount).toBe(1);
});

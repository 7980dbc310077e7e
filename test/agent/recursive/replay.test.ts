import { expect, test } from 'vitest';
import { taskOf } from '../../support/attempts.ts';
import { startCommand } from '../../support/command.ts';
import { ANSWER, ANSWERED, isRoot, QUESTION, type RootScript, recursiveBench } from '../../support/recursive-bench.ts';
import { type Exchange, startScriptedProvider } from '../../support/scripted-provider.ts';
import { until } from '../../support/until.ts';

const bench = recursiveBench();
const INNER = 'answer({ text: "red", citations: [{ document: "context", quote: "red is" }] });';

/** Digests of the states that a batch's only task went through, by checkpoint. */
async function statesOf(batch: string): Promise<Record<string, string>> {
  const { rows } = await bench.journal.db.pool.query<{ name: string; value: string }>(
    `SELECT scope || '/' || name AS name, convert_from(value, 'UTF8') AS value FROM madrugada.step_record
      WHERE batch_key = $1 AND kind = 'checkpoint' ORDER BY completed_no`,
    [batch],
  );
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}

/** Waits until the request with these words has come. */
function arrivalOf(words: string): Promise<Exchange> {
  return until(`"${words}" is asked`, () =>
    bench.journal.provider.exchanges.find((exchange) => exchange.body.toString().includes(words)),
  );
}

/**
 * Plays a task until the request that holds `words` is under way, gives the task back there, and resumes it by another worker to its end.
 * `answer` looks after the sub-calls until then.
 */
async function interrupt(
  root: RootScript,
  words: string,
  options: Record<string, string> = {},
  drive?: () => Promise<void>,
) {
  const batch = await bench.load({ options });
  bench.play(root, drive ? () => undefined : undefined);
  const play = bench.journal.provider.script;
  bench.journal.provider.script = (exchange) => (exchange.body.toString().includes(words) ? undefined : play(exchange));
  const first = await bench.start(batch);
  await drive?.();
  const held = await arrivalOf(words);
  first.session().end({ kind: 'released', message: 'by the test' });
  await play(held);
  if (drive && !isRoot(held)) held.message();
  expect((await first.result).ending).toBe('released');
  const before = await statesOf(batch);
  const recorded = bench.journal.provider.requestCount;

  bench.play(root);
  const second = await bench.attempt(batch);
  return { batch, before, recorded, second, task: await taskOf(bench.journal.db, batch) };
}

test('a task that was interrupted goes on from its journal: nothing is asked twice, and the answer is the same', async () => {
  const root = {
    [QUESTION]: ['print(await llm("one"));', 'print(await llmBatch(["two", "three"]));', 'await llm("four");', ANSWER],
  };
  const { recorded, second, task } = await interrupt(root, 'four');

  expect(second).toMatchObject({ ending: 'completed', replayedCalls: recorded });
  expect(recorded).toBe(7);
  expect(bench.repeated).toEqual([]);
  expect(bench.prompts).toEqual(['one', 'two', 'three', 'four']);
  expect(task.result).toEqual(ANSWERED);
});

test('a worker process killed with an answer in hand pays for that one again and for no other', async () => {
  const provider = await startScriptedProvider();
  const root = ['print(await llm("one"));', 'print(await llm("two"));', ANSWER];
  bench.play({ [QUESTION]: root });
  provider.script = bench.journal.provider.script;
  const batch = await bench.load();
  const start = (slot: string, failpoint: string) =>
    startCommand(['worker', '--slot', `${batch}/${slot}`, '--batch', batch], {
      environment: {
        DATABASE_URL: bench.journal.db.url,
        ANTHROPIC_BASE_URL: provider.url,
        MADRUGADA_FAILPOINT: failpoint,
      },
    });
  expect((await start('1', 'journal.outcome.before:kill@4').result).signal).toBe('SIGKILL');
  const second = start('2', '');
  await until('the task is completed', async () => (await taskOf(bench.journal.db, batch)).state === 'completed');
  second.process.kill('SIGTERM');
  await second.result;
  await provider.close();

  const bodies = provider.exchanges.map(({ body }) => body.toString());
  expect(bodies.filter((body, index) => bodies.indexOf(body) !== index)).toEqual([expect.stringContaining('"two"')]);
  expect(bodies).toHaveLength(6);
  expect((await taskOf(bench.journal.db, batch)).result).toEqual(ANSWERED);
});

/** Answers held sub-calls in this order, each once the one before is in the journal. */
async function answerInOrder(prompts: string[]): Promise<void> {
  const exchanges = await Promise.all(prompts.map((prompt) => arrivalOf(`"${prompt}"`)));
  for (const [index, exchange] of exchanges.entries()) {
    exchange.message();
    await until('it is recorded', async () => {
      const { rows } = await bench.journal.db.pool.query<{ count: number }>(
        `SELECT count(*)::int AS count FROM madrugada.call_outcome o JOIN madrugada.call_intent i USING (batch_key, task_id, seq, dispatch)
          WHERE convert_from(i.request, 'UTF8') LIKE ANY ($1) AND o.recorded_at > now() - interval '1 minute'`,
        [prompts.map((prompt) => `%"${prompt}"%`)],
      );
      return rows[0]?.count === index + 1;
    });
  }
}

const RACE = `const order = [];
  const calls = ["p1", "p2", "p3"].map((p) => llm(p).then((text) => { order.push(p); return text; }));
  const first = await Promise.race(calls);
  await Promise.all(calls);
  print(first, order.join());
  let winner = first;`;

test('sub-calls that completed in the order 3, 2, 1 do so on replay, and the code comes to the same states', async () => {
  const root = { [QUESTION]: [RACE, 'await llm("after " + winner);', 'await llm("last");', ANSWER] };
  const { batch, before, second } = await interrupt(root, '"last"', {}, async () => {
    await answerInOrder(['p3', 'p2', 'p1']);
    (await arrivalOf('after answer to p3')).message();
  });

  expect(bench.told[0]).toContain('answer to p3 p3,p2,p1');
  expect(second.ending).toBe('completed');
  expect(bench.repeated).toEqual([]);
  expect(Object.keys(before)).toEqual(['/context', '/turn 1', '/turn 2']);
  expect(await statesOf(batch)).toMatchObject(before);
});

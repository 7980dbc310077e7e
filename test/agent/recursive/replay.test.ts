import { expect, test } from 'vitest';
import { taskOf } from '../../support/attempts.ts';
import { startCommand } from '../../support/command.ts';
import { ANSWER, ANSWERED, bodyOf, QUESTION, type RootScript, recursiveBench } from '../../support/recursive-bench.ts';
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

/** Waits until the request whose last message holds these words has come. */
function arrivalOf(words: string): Promise<Exchange> {
  return until(`${words} is asked`, () => bench.journal.provider.exchanges.find((exchange) => holds(exchange, words)));
}

function holds(exchange: Exchange, words: string): boolean {
  return JSON.stringify(bodyOf(exchange).messages.at(-1)).includes(words);
}

/**
 * Plays a task until the request that holds `words` is under way, gives the task back there, and resumes it by another worker to its end.
 * With `drive`, sub-calls wait until then for what it does with them.
 */
async function interrupt(
  root: RootScript,
  words: string,
  { options = {}, drive }: { options?: Record<string, string>; drive?: (batch: string) => Promise<void> } = {},
) {
  const batch = await bench.load({ options });
  bench.play(root, drive && (() => undefined));
  const { script } = bench.journal.provider;
  bench.journal.provider.script = (exchange) => (holds(exchange, words) ? undefined : script(exchange));
  const first = await bench.start(batch);
  await drive?.(batch);
  const held = await arrivalOf(words);
  const before = await statesOf(batch);
  first.session().end({ kind: 'released', message: 'by the test' });
  bench.play(root);
  await bench.journal.provider.script(held);
  expect((await first.result).ending).toBe('released');
  const recorded = bench.journal.provider.requestCount;
  const second = await bench.attempt(batch);
  return { batch, before, recorded, second, task: await taskOf(bench.journal.db, batch) };
}

/** Expects that a task was resumed to its end without asking anything twice, through the states of its first attempt. */
async function expectSame({ batch, before, second }: Awaited<ReturnType<typeof interrupt>>): Promise<void> {
  expect(second.message).toBeUndefined();
  expect(second.ending).toBe('completed');
  expect(bench.repeated).toEqual([]);
  expect(Object.keys(before).length).toBeGreaterThan(1);
  expect(await statesOf(batch)).toMatchObject(before);
}

test('a task that was interrupted goes on from its journal: nothing is asked twice, and the answer is the same', async () => {
  const root = {
    [QUESTION]: ['print(await llm("one"));', 'print(await llmBatch(["two", "three"]));', 'await llm("four");', ANSWER],
  };
  const resumed = await interrupt(root, 'four');
  const { recorded, second, task } = resumed;

  await expectSame(resumed);
  expect([recorded, second.replayedCalls]).toEqual([7, 7]);
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

/** Answers held requests in this order, each once the answer before it is recorded. */
async function answerInOrder(batch: string, order: string[]): Promise<void> {
  for (const words of order) {
    const exchange = await arrivalOf(words);
    const recorded = await answersOf(batch);
    exchange.message();
    await until('the answer is recorded', async () => (await answersOf(batch)) > recorded);
  }
}

async function answersOf(batch: string): Promise<number> {
  const { rows } = await bench.journal.db.pool.query<{ count: number }>(
    'SELECT count(*)::int AS count FROM madrugada.call_outcome WHERE batch_key = $1 AND answers',
    [batch],
  );
  return rows[0]?.count ?? 0;
}

const RACE = `const order = [];
  const calls = ["p1", "p2", "p3"].map((p) => llm(p).then((text) => { order.push(p); return text; }));
  const first = await Promise.race(calls);
  await Promise.all(calls);
  print(first, order.join());`;

test('sub-calls that completed in the order 3, 2, 1 do so on replay, and the code comes to the same states', async () => {
  const root = { [QUESTION]: [RACE, 'await llm("after " + first);', 'await llm("the final word");', ANSWER] };
  const resumed = await interrupt(root, 'the final word', {
    drive: (batch) => answerInOrder(batch, ['"p3"', '"p2"', '"p1"', 'after answer to p3']),
  });

  expect(bench.told[0]).toContain('answer to p3 p3,p2,p1');
  await expectSame(resumed);
});

test('chains of sub-calls that overtake one another do so on replay', async () => {
  const chains = `const order = [];
    const chain = async (name) => { for (const n of [1, 2, 3]) order.push(await llm(name + n)); };
    await Promise.all([chain("a"), chain("b")]);
    print(order.join());`;
  const root = { [QUESTION]: [chains, 'await llm("the final word");', ANSWER] };
  const resumed = await interrupt(root, 'the final word', {
    drive: (batch) => answerInOrder(batch, ['"b1"', '"b2"', '"a1"', '"b3"', '"a2"', '"a3"']),
  });

  await expectSame(resumed);
});

test('a sub-call that its limit refuses is refused at the same place among the answers on replay', async () => {
  const chains = `const order = [];
    const chain = async (name) => {
      // between two calls the code takes its time, in which the next answer could come
      for (const n of [1, 2]) {
        await llm(name + n).then(() => order.push(name + n), () => order.push("none for " + name + n));
        for (let step = 0; step < 1_000_000; step += 1);
      }
    };
    await Promise.all([chain("a"), chain("b")]);
    print(order.join());`;
  const root = { [QUESTION]: [chains, '"the final word"', { message: 'the final word' }, ANSWER] };
  const resumed = await interrupt(root, '=> the final word', {
    options: { max_subcalls: '3' },
    drive: async (batch) => {
      await answerInOrder(batch, ['"a1"']);
      await arrivalOf('"a2"');
      await answerInOrder(batch, ['"b1"']);
      await until('the refusal has its place', async () => (await stepsOf(batch)).length > 0);
      await answerInOrder(batch, ['"a2"']);
    },
  });

  expect(bench.told[0]).toContain('a1,b1,none for b2,a2');
  await expectSame(resumed);
});

/** Names of the steps of a batch, in order. */
async function stepsOf(batch: string): Promise<string[]> {
  const { rows } = await bench.journal.db.pool.query<{ name: string }>(
    `SELECT name FROM madrugada.step_record WHERE batch_key = $1 AND kind = 'step' ORDER BY completed_no`,
    [batch],
  );
  return rows.map(({ name }) => name);
}

test('nested runs and plain sub-calls that overtake one another do so on replay', async () => {
  const beside = `const order = [];
    await Promise.all([
      recurse("Which?", "red is a colour").then(({ text }) => order.push(text)),
      llm("p1").then((text) => order.push(text)),
      recurse("What colour?", "red is a colour").then(({ text }) => order.push(text)),
      llm("p2").then((text) => order.push(text)),
    ]);
    print(order.join());`;
  const inner = (text: string) => [`await llm("${text}");`, INNER.replace('"red"', `"${text}"`)];
  const root = {
    ...{ [QUESTION]: [beside, 'await llm("the final word");', ANSWER] },
    ...{ 'Which?': inner('n1'), 'What colour?': inner('n2') },
  };
  const resumed = await interrupt(root, 'the final word', {
    options: { max_depth: '2' },
    drive: async (batch) => {
      await answerInOrder(batch, ['"p2"', '"n2"']);
      await until('the second nested run has ended', async () => (await stepsOf(batch)).includes('recurse 2 ended'));
      await answerInOrder(batch, ['"p1"', '"n1"']);
    },
  });

  expect(bench.told[0]).toContain('answer to p2,n2,answer to p1,n1');
  await expectSame(resumed);
});

test('the failure of a nested run keeps its place on replay', async () => {
  const beside = `const order = [];
    await Promise.all([
      recurse("Which?", "red is a colour").catch(() => order.push("failed")),
      llm("p1").then(() => order.push("p1")),
    ]);
    print(order.join());`;
  const root = { [QUESTION]: [beside, 'await llm("the final word");', ANSWER], 'Which?': ['1', '2', '3', '4'] };
  const resumed = await interrupt(root, 'the final word', {
    options: { max_depth: '2', max_turns: '4' },
    drive: async (batch) => {
      await until('the nested run has ended', async () => (await stepsOf(batch)).includes('recurse 1 ended'));
      await answerInOrder(batch, ['"p1"']);
    },
  });

  expect(bench.told[0]).toContain('failed,p1');
  await expectSame(resumed);
});

test('a nested run is told of its own sub-calls alone: those of others come when they come', async () => {
  const both = 'await Promise.all([llm("p1"), recurse("Which?", "red is a colour")]);';
  bench.play({ [QUESTION]: [both, ANSWER], 'Which?': ['await llm("n1");', INNER] });
  await bench.attempt(await bench.load({ options: { max_depth: '2' } }));

  const inner = bench.rootRequests.filter(({ messages }) => JSON.stringify(messages[0]).includes('Which?'));
  expect(JSON.stringify(inner[1]?.messages)).toContain('(Turn 1 of 20 is over; sub-calls used here: 2.)');
  expect(bench.told[0]).toContain('4 of 100 sub-calls are used');
});

const BUSY: RootScript = {
  [QUESTION]: [
    RACE,
    'print(await llmBatch(order.map((p) => "again " + p))); print(await recurse("Which?", "red is a colour"));',
    'nobody()',
    ANSWER,
  ],
  'Which?': ['await llm("inner");', INNER],
};

test('a task that is abandoned and replayed after every answer comes to the same answer and asks nothing twice', async () => {
  bench.play(BUSY);
  const batch = await bench.load({ options: { max_depth: '2' } });
  const result = await bench.attempt(batch, await bench.journal.workers.add({ alwaysReplay: true }));

  expect(result.message).toBeUndefined();
  expect(result.ending).toBe('completed');
  expect(bench.repeated).toEqual([]);
  expect((await taskOf(bench.journal.db, batch)).result).toEqual(ANSWERED);
});

import { expect, test } from 'vitest';
import { taskOf } from '../../support/attempts.ts';
import { ANSWER, ANSWERED, QUESTION, type RootScript, recursiveBench } from '../../support/recursive-bench.ts';
import type { Exchange } from '../../support/scripted-provider.ts';
import { until } from '../../support/until.ts';

const bench = recursiveBench();
const DEEP = { max_depth: '2' };
/** Code of a nested run that answers from the slice "red is a colour". */
const INNER = 'answer({ text: "red", citations: [{ document: "context", quote: "red is" }] });';
const RECURSE = 'const inner = await recurse("Which?", "red is a colour");\nprint(inner);';

/** One attempt by these root models. */
async function run(root: RootScript, options: Record<string, string> = {}, sub?: (exchange: Exchange) => void) {
  bench.play(root, sub);
  const batch = await bench.load({ options: { ...DEEP, ...options } });
  const result = await bench.attempt(batch);
  return { batch, result, task: await taskOf(bench.journal.db, batch) };
}

/** The distinct scopes of a batch's calls, in the order of the calls. */
async function scopesOf(batch: string): Promise<string[]> {
  const { rows } = await bench.journal.db.pool.query<{ scope: string }>(
    'SELECT scope FROM madrugada.call_intent WHERE batch_key = $1 ORDER BY seq',
    [batch],
  );
  return rows.map(({ scope }) => scope);
}

test('a nested run works on its slice, and its answer comes back to the code', async () => {
  const { task } = await run({ [QUESTION]: [RECURSE, ANSWER], 'Which?': ['print(context);', INNER] });

  expect(bench.told[0]).toContain('{"text": "red", "citations": [{"document": "context", "quote": "red is"}]}');
  const [, first, second] = bench.rootRequests;
  expect(JSON.stringify(first?.messages)).toContain(
    '<question>Which?</question>\\n\\n`context` is a string of 15 characters.',
  );
  expect(JSON.stringify(second?.messages)).toContain('red is a colour');
  expect(task.result).toEqual(ANSWERED);
});

test('a slice may be documents with names', async () => {
  const code = 'print((await recurse("Which?", [{ name: "a", text: "red" }, { name: "b", text: "blue" }])).text);';
  const inner = 'answer({ text: context.map((d) => d.name).join(), citations: [{ document: "b", quote: "blue" }] });';
  await run({ [QUESTION]: [code, ANSWER], 'Which?': [inner] });

  expect(bench.told[0]).toContain('a,b');
});

test('the gate of a nested run looks at its slice alone', async () => {
  const outside = 'answer({ text: "x", citations: [{ document: "context", quote: "made of rock" }] });';
  await run({ [QUESTION]: [RECURSE, ANSWER], 'Which?': [outside, INNER] });

  expect(JSON.stringify(bench.rootRequests[2]?.messages)).toContain('The answer was refused');
});

test('nested roots are asked of the sub-model, without the effort of the root model', async () => {
  await run({ [QUESTION]: [RECURSE, ANSWER], 'Which?': [INNER] }, { effort: 'high' });

  expect(bench.rootRequests.map(({ model }) => model)).toEqual([
    'claude-opus-4-6',
    'claude-haiku-4-5',
    'claude-opus-4-6',
  ]);
  expect(bench.rootRequests[1]).not.toHaveProperty('output_config');
});

test('calls of nested runs have a scope of their own, by turn and number of the run', async () => {
  const twice = `await Promise.all([recurse("Which?", "red is a colour"), recurse("What colour?", "red is one")]);`;
  const answer = INNER.replace('red is', 'red');
  const { batch } = await run({
    [QUESTION]: ['1', twice, RECURSE, ANSWER],
    'Which?': ['await llm("inner");', INNER],
    'What colour?': [answer],
  });

  const scopes = await scopesOf(batch);
  expect(scopes.filter((scope) => scope === '')).toHaveLength(4);
  expect([...new Set(scopes)].sort()).toEqual([
    '',
    'turn 2/recurse 1',
    'turn 2/recurse 1/turn 1',
    'turn 2/recurse 2',
    'turn 3/recurse 3',
    'turn 3/recurse 3/turn 1',
  ]);
});

test('the failure of a nested run is told to the code that asked for it', async () => {
  const caught = 'try { await recurse("Which?", "red") } catch (error) { print("caught:", error.message) }';
  const { result } = await run({ [QUESTION]: [caught, ANSWER], 'Which?': ['1', '2'] }, { max_turns: '2' });

  expect(bench.told[0]).toContain('caught: recurse 1 failed: there was no answer after 2 turns (option max_turns)');
  expect(result.ending).toBe('completed');
});

test('calls of nested runs count as sub-calls of the task, those to their roots included', async () => {
  const inner = ['await llm("inner");', INNER];
  await run({ [QUESTION]: ['await llm("outer");', RECURSE, ANSWER], 'Which?': inner });

  expect(bench.told[1]).toContain('4 of 100 sub-calls are used');
});

test('a nested run that has no sub-calls left fails, and the root model can still answer', async () => {
  const { result } = await run(
    { [QUESTION]: ['await llm("outer");', RECURSE, ANSWER], 'Which?': ['1', INNER] },
    { max_subcalls: '2' },
  );

  expect(bench.told[1]).toContain('recurse 1 failed: the limit of 2 sub-calls is reached');
  expect(bench.rootRequests).toHaveLength(4);
  expect(result.ending).toBe('completed');
});

test('a limit on the whole task that a nested run reaches ends the task, whatever any code catches', async () => {
  const caught = `try { await recurse("Which?", "red is a colour") } catch {}\n${ANSWER}`;
  const stubborn = `try { await llm("1"); await llm("2"); await llm("3") } catch {}\n${INNER}`;
  const { result } = await run({ [QUESTION]: [caught], 'Which?': [stubborn] }, { max_task_tokens: '100' });

  expect(result.message).toBe('the task has used 120 tokens; its limit is max_task_tokens=100');
  expect(bench.prompts).toEqual(['1', '2']);
});

test('with max_depth=2 a nested run is not offered recurse', async () => {
  await run({ [QUESTION]: [RECURSE, ANSWER], 'Which?': ['await recurse("x", "y");', INNER] });

  expect(JSON.stringify(bench.rootRequests[0]?.system)).toContain('await recurse(');
  expect(JSON.stringify(bench.rootRequests[1]?.system)).not.toContain('recurse');
  expect(JSON.stringify(bench.rootRequests[2]?.messages)).toContain('recurse is not offered at this depth');
});

test('with max_depth=3 it is, one level deeper, and its runs have their scopes inside of its own', async () => {
  const deeper = 'await recurse("How?", "red is a colour");';
  const { batch } = await run(
    { [QUESTION]: [RECURSE, ANSWER], 'Which?': [deeper, INNER], 'How?': [INNER] },
    { max_depth: '3' },
  );
  expect(await scopesOf(batch)).toContain('turn 1/recurse 1/turn 1/recurse 1');
});

test('nested runs and their sub-calls together never have more requests open than max_concurrent_subcalls', async () => {
  const all =
    'await Promise.all([recurse("Which?", "red is a colour"), recurse("How?", "red is a colour"), llm("plain")]);';
  const inner = (name: string) => [`await llmBatch(["${name} 1", "${name} 2"]);`, INNER];
  bench.play({ [QUESTION]: [all, ANSWER], 'Which?': inner('a'), 'How?': inner('b') });
  const { script } = bench.journal.provider;
  const open: Exchange[] = [];
  let most = 0;
  bench.journal.provider.script = (exchange) => {
    if (exchange.body.toString().includes(QUESTION)) return script(exchange); // the task's own root model
    open.push(exchange);
    most = Math.max(most, open.length);
  };
  const attempt = await bench.start(await bench.load({ options: { ...DEEP, max_concurrent_subcalls: '2' } }));
  await until('two are open', () => open.length === 2);
  for (let answered = 0; answered < 9; answered += 1) {
    await until('one is open', () => open.length > 0);
    const first = open.shift();
    if (first) await script(first);
  }

  expect((await attempt.result).ending).toBe('completed');
  expect(most).toBe(2);
});

test('a slice that is none is an error of the code', async () => {
  await run({ [QUESTION]: ['await recurse("Which?", [{ name: "a" }]);', ANSWER] });
  expect(bench.told[0]).toContain('the slice must be a text, or a list of { name, text }');
});

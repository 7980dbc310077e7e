import { expect, test } from 'vitest';
import { ANSWER, inBlock, QUESTION, recursiveBench } from '../../support/recursive-bench.ts';

const bench = recursiveBench();

test('the root model is told what its code printed, and where the task stands', async () => {
  await bench.run(['print("one", 2);', ANSWER]);
  expect(bench.told).toEqual(['<output>\none 2\n</output>\n\n(Turn 1 of 20 is over; 0 of 100 sub-calls are used.)']);
});

test('the value of the last expression is shown', async () => {
  await bench.run(['context.length', ANSWER]);
  expect(bench.told[0]).toMatch(/^<output>\n=> 52\n<\/output>/);
});

test('variables last from one turn to the next', async () => {
  await bench.run(['const found = search("moon").length;', 'print("found", found);', ANSWER]);
  expect(bench.told[1]).toContain('found 1');
});

test('code that prints nothing is told so', async () => {
  await bench.run(['const a = 1;', ANSWER]);
  expect(bench.told[0]).toMatch(/^Nothing was printed\.\n\n\(Turn 1 of 20/);
});

test('a failure is told with what was printed before it', async () => {
  await bench.run(['print("before");\nnobody();\nprint("after");', ANSWER]);

  expect(bench.told[0]).toMatch(
    /^<output>\nbefore\n<\/output>\n\nThe code failed: ReferenceError: .*nobody.*\n +at turn-1\.js line 2\n/,
  );
  expect(bench.told[0]).not.toContain('after');
});

test('what was assigned before a failure is kept', async () => {
  await bench.run(['const a = 1;\nnobody();', 'print("a is", a);', ANSWER]);
  expect(bench.told[1]).toContain('a is 1');
});

test('code that cannot be parsed is told where', async () => {
  await bench.run(['print(1);\nprint(;', ANSWER]);
  expect(bench.told[0]).toMatch(
    /The code failed: SyntaxError: .*\(line 2, column 6\)\. Nothing of this block was run\./,
  );
});

test('a message without a block of code runs nothing and says how to write one', async () => {
  const { result } = await bench.run([{ message: 'The answer is rock.' }, ANSWER]);

  expect(bench.told[0]).toBe(
    'There was no block of code in your message, so nothing was run. Write one fenced with ```js; end with answer(…) in such a block.\n\n(Turn 1 of 20 is over; 0 of 100 sub-calls are used.)',
  );
  expect(result.ending).toBe('completed');
});

test('nothing of a message that was cut off is run, though it has a whole block', async () => {
  const cut = { message: inBlock('print("half a program");'), differing: { stop_reason: 'max_tokens' } };
  await bench.run([cut, ANSWER], { options: { max_tokens: '300' } });

  expect(bench.told[0]).toMatch(/^Your message was cut off at 300 tokens, and nothing of it was run\./);
  expect(bench.rootRequests).toHaveLength(2);
});

test('before the last turn the root model is told that it is the last', async () => {
  await bench.run(['1', '2', ANSWER], { options: { max_turns: '3' } });

  expect(bench.told[0]).toContain('(Turn 1 of 3 is over; 0 of 100 sub-calls are used.)');
  expect(bench.told[1]).toContain(
    '(Turn 2 of 3 is over; 0 of 100 sub-calls are used. The next turn is the last: answer in it.)',
  );
});

test('the number of sub-calls used is told', async () => {
  await bench.run(['await llmBatch(["a", "b"]);', 'await llm("c");', ANSWER], { options: { max_subcalls: '7' } });

  expect(bench.told[0]).toContain('2 of 7 sub-calls are used');
  expect(bench.told[1]).toContain('3 of 7 sub-calls are used');
});

test('several blocks of one message are run one after the other', async () => {
  await bench.run([{ message: `${inBlock('const a = 1;')}\n\n${inBlock('print("a is", a);')}` }, ANSWER]);
  expect(bench.told[0]).toContain('a is 1');
});

test('after a block that failed the next ones of its message are not run', async () => {
  await bench.run([{ message: `${inBlock('nobody()')}\n\n${inBlock('print("still here");')}` }, ANSWER]);
  expect(bench.told[0]).not.toContain('still here');
});

test('the conversation goes on from what was said, word for word', async () => {
  await bench.run(['print(1);', ANSWER], { options: { cache: 'off' } });
  const [first, second] = bench.rootRequests;

  expect(second?.messages).toEqual([
    ...(first?.messages ?? []),
    { role: 'assistant', content: [{ type: 'text', text: inBlock('print(1);') }] },
    { role: 'user', content: bench.told[0] },
  ]);
});

test('blocks of a reply that are no text go back as they came', async () => {
  const content = [
    { type: 'thinking', thinking: 'hm', signature: 'c2ln' },
    { type: 'text', text: inBlock('print(1);') },
  ];
  await bench.run([{ message: '', differing: { content } }, ANSWER]);
  expect(bench.rootRequests[1]?.messages[1]).toEqual({ role: 'assistant', content });
});

test('a reply without any content is answered, and kept as a message that the provider takes', async () => {
  const { result } = await bench.run([{ message: '', differing: { content: [] } }, ANSWER]);

  expect(bench.rootRequests[1]?.messages[1]).toEqual({ role: 'assistant', content: '(nothing)' });
  expect(result.ending).toBe('completed');
});

test('the first message holds the question and what there is to read', async () => {
  await bench.run([ANSWER], { options: { cache: 'off' } });
  expect(bench.rootRequests[0]?.messages).toEqual([
    { role: 'user', content: `<question>${QUESTION}</question>\n\n\`context\` is a string of 52 characters.` },
  ]);
});

import { expect, test } from 'vitest';
import { codeBlocks } from '../../../src/agent/recursive/code-blocks.ts';

/** A message of these lines. */
const message = (...lines: string[]) => lines.join('\n');

for (const mark of ['js', 'javascript', 'repl', 'mjs', 'JS', 'JavaScript'])
  test(`a block marked ${mark} is to be run`, () => {
    expect(codeBlocks(message('I look.', `\`\`\`${mark}`, 'print(1);', '```', 'Then I answer.'))).toEqual([
      'print(1);',
    ]);
  });

test('a block with another mark is not to be run', () => {
  expect(codeBlocks(message('```json', '{}', '```', '```python', 'print(1)', '```'))).toEqual([]);
});

test('a block without a mark is to be run where none is marked', () => {
  expect(codeBlocks(message('```', 'print(1)', '```'))).toEqual(['print(1)']);
});

test('a block without a mark is only shown where another is marked', () => {
  expect(codeBlocks(message('```', 'print(1)', '```', '```js', 'print(2)', '```'))).toEqual(['print(2)']);
});

test('a block without a mark stands in for code even beside one with another mark', () => {
  expect(codeBlocks(message('```text', 'a plan', '```', '```', 'print(1)', '```'))).toEqual(['print(1)']);
});

test('several blocks are run in their order', () => {
  const blocks = codeBlocks(message('```js', 'a = 1', '```', 'and', '```js', 'b = 2', '', 'c = 3', '```'));
  expect(blocks).toEqual(['a = 1', 'b = 2\n\nc = 3']);
});

test('a message without a block has none', () => {
  expect(codeBlocks('I would call `answer(…)` now.')).toEqual([]);
  expect(codeBlocks('')).toEqual([]);
});

test('a fence of tildes is one as well, and ends at tildes', () => {
  expect(codeBlocks(message('~~~js', 'print("```")', '```', '~~~'))).toEqual(['print("```")\n```']);
});

test('a longer fence ends at one at least as long', () => {
  expect(codeBlocks(message('````js', 'a = `', '```', '`', '`````'))).toEqual(['a = `\n```\n`']);
});

test('a template literal that contains a fence, escaped as it must be, does not end the block', () => {
  const code = message(
    'const p = `Read this:',
    '\\`\\`\\`',
    'some text',
    '\\`\\`\\`',
    'and answer.`;',
    'print(await llm(p));',
  );
  expect(codeBlocks(message('```js', code, '```', 'That is all.'))).toEqual([code]);
});

test('a template literal that contains the very fence of its block does not end it', () => {
  const code = message('const p = `Read this:', '~~~', 'some text', '~~~', 'and answer.`;', 'print(await llm(p));');
  expect(codeBlocks(message('~~~js', code, '~~~', 'That is all.'))).toEqual([code]);
});

test('a comment that contains a whole block does not end the block', () => {
  const code = message('/* as in', '```', 'print(1)', '```', '*/', 'print(2);');
  expect(codeBlocks(message('```js', code, '```'))).toEqual([code]);
});

test('a block that has ended does not swallow the next, though the two together would parse', () => {
  const blocks = codeBlocks(message('```js', 'a = 1', '```', '```js', 'b = 2', '```'));
  expect(blocks).toEqual(['a = 1', 'b = 2']);
});

test('code that does not parse ends at its first fence, so that the mistake is shown for what it is', () => {
  expect(codeBlocks(message('```js', 'print(1', '```', 'and', '```js', 'print(2)', '```'))).toEqual([
    'print(1',
    'print(2)',
  ]);
});

test('a block without an end is none', () => {
  expect(codeBlocks(message('```js', 'print(1)'))).toEqual([]);
});

test('blocks before one without an end are still run', () => {
  expect(codeBlocks(message('```js', 'print(1)', '```', '```js', 'print(2)'))).toEqual(['print(1)']);
});

test('line ends of other systems and spaces around fences do not matter', () => {
  expect(codeBlocks('Look:\r\n  ``` js \r\nprint(1)\r\n  ```\r\n')).toEqual(['print(1)\r']);
});

test('what follows the mark on its line does not matter', () => {
  expect(codeBlocks(message('```js title="first"', 'print(1)', '```'))).toEqual(['print(1)']);
});

test('backticks inside of a line open nothing', () => {
  expect(codeBlocks(message('```js print(1)``` is how', 'print(2)', '```'))).toEqual([]);
});

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import type { ValidateInput } from '../../src/batch/check-task.ts';
import { type NewTask, readTasks } from '../../src/batch/read-tasks.ts';

const folder = mkdtempSync(join(tmpdir(), 'madrugada-judging-'));
afterAll(() => rmSync(folder, { recursive: true }));

const anything: ValidateInput = async () => [];

async function read(name: string, content: string, validate = anything): Promise<NewTask[]> {
  const file = join(folder, name);
  writeFileSync(file, content);
  const tasks = [];
  for await (const task of readTasks(file, validate)) tasks.push(task);
  return tasks;
}

describe('items', () => {
  test.each([
    ['a whole number', '7', '7'],
    ['a text with spaces and colons', '" a:b "', ' a:b '],
    ['a text as long as it may be', JSON.stringify('x'.repeat(500)), 'x'.repeat(500)],
  ])('%s is an item', async (_, item, expected) => {
    expect(await read('item.jsonl', `{"item": ${item}}\n`)).toMatchObject([{ position: 1, item: expected }]);
  });

  test.each([
    ['a fraction', '1.5', 'the item is 1.5'],
    ['a number too large to be exact', '12345678901234567890', 'the item is 1234567890123456'],
    ['true', 'true', 'the item is true'],
    ['null', 'null', 'the item is null'],
    ['an object', '{"a": 1}', 'the item is {"a":1}'],
    ['an empty text', '""', 'the item is empty'],
    ['blank text', '" \\t"', 'the item is empty'],
    ['a text too long for an index', JSON.stringify(`${'é'.repeat(250)}x`), 'longer than 500 bytes'],
    ['half a character', '"\\ud800"', 'half of a surrogate pair'],
  ])('%s is none', async (_, item, problem) => {
    await expect(read('item.jsonl', `{"item": ${item}}\n`)).rejects.toThrow(problem);
  });

  test('a number and the same digits as text are the same item', async () => {
    await expect(read('same.jsonl', '{"item": 1}\n\n{"item": "1"}\n')).rejects.toThrow(
      'line 3 (item 1): duplicate of line 1',
    );
  });
});

describe('inputs', () => {
  test('every problem that the agent sees is named with its line and item', async () => {
    const validate: ValidateInput = async (input) =>
      JSON.stringify(input) === '{"question":""}' ? ['question: too short', 'question: no question mark'] : [];
    await expect(read('agent.csv', 'item,question\n1,a\n2,\n', validate)).rejects.toThrow(
      /2 errors; nothing was loaded\n {2}line 3 \(item 2\): question: too short\n {2}line 3 \(item 2\): question: no/,
    );
  });

  test.each([
    ['a NUL character deep inside', '{"a": [{"b": "x\\u0000"}]}', 'input.a.0.b holds a NUL character'],
    ['a NUL character in a name', '{"x\\u0000": 1}', 'a name in input holds a NUL character'],
    ['half a character', '{"a": "\\udc00"}', 'input.a holds half of a surrogate pair'],
    ['a number beyond all range', '{"a": 1e999}', 'input.a is a number out of range'],
  ])('%s is refused: the database could not keep it', async (_, fields, problem) => {
    await expect(read('input.jsonl', `{"item": "1", ${fields.slice(1)}\n`)).rejects.toThrow(problem);
  });

  test.each([
    ['an array', '["item"]'],
    ['a text', '"item"'],
    ['null', 'null'],
  ])('a line that is %s is no task', async (_, line) => {
    await expect(read('line.jsonl', `${line}\n`)).rejects.toThrow('line 1: not a JSON object');
  });
});

test('a broken line is named, and reading goes on to name the next', async () => {
  await expect(read('two.jsonl', '{"item": "1"}\n{oops\n{"item": "2"}\n{"item": ""}\n')).rejects.toThrow(
    /2 errors.*\n.*line 2: invalid JSON.*\n.*line 4: the item is empty/,
  );
});

test('no task comes after a bad line: what follows is only judged', async () => {
  const seen: string[] = [];
  const file = join(folder, 'bad.jsonl');
  writeFileSync(file, '{"item": "1"}\n{"item": ""}\n{"item": "3"}\n');
  const reading = (async () => {
    for await (const { item } of readTasks(file, anything)) seen.push(item);
  })();
  await expect(reading).rejects.toThrow('line 2');
  expect(seen).toEqual(['1']);
});

test.each([
  ['.jsonl', '{"item": "1"}\n', 1],
  ['.NDJSON', '{"item": "1"}\n', 1],
  ['.csv', 'item\n{\n', 1],
  ['.txt', '\n\n  {"item": "1"}\n', 1],
  ['.txt', '\n\nitem,a\n1,b\n', 1],
])('a file %s that begins %j is read as what it is', async (ending, content, tasks) => {
  expect(await read(`file${ending}`, content)).toHaveLength(tasks);
});

test.each(['', '\n\n', '\uFEFF'])('a file that holds only %j holds no task', async (content) => {
  await expect(read('empty.jsonl', content)).rejects.toThrow('holds no task; nothing was loaded');
});

test('the same list in CSV and in JSON Lines is the same list', async () => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'é', '"', ',', '\n', '\\', ' ', ':'),
    minLength: 1,
    maxLength: 8,
  });
  const item = text.filter((value) => value.trim() !== '');
  const list = fc.uniqueArray(fc.record({ item, question: text }), {
    selector: (task) => task.item,
    minLength: 1,
    maxLength: 5,
  });
  await fc.assert(
    fc.asyncProperty(list, async (tasks) => {
      const csv = tasks.map((task) => [task.item, task.question].map((v) => `"${v.replaceAll('"', '""')}"`).join(','));
      const lines = tasks.map((task) => JSON.stringify(task));
      expect(await read('list.csv', `item,question\n${csv.join('\n')}`)).toEqual(
        await read('list.jsonl', lines.join('\n')),
      );
    }),
    { numRuns: 50 },
  );
});

import { Readable } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BadLines } from '../../src/batch/bad-lines.ts';
import { readCsv } from '../../src/batch/csv-rows.ts';

/** The tasks of a CSV text that comes in the given blocks, and what is wrong with it. */
async function parsed(
  ...blocks: string[]
): Promise<{ tasks: { line: number; item: unknown; input: unknown }[]; bad: string }> {
  const bad = new BadLines();
  const tasks = [];
  for await (const { line, item, input } of readCsv(Readable.from(blocks), bad)) tasks.push({ line, item, input });
  return { tasks, bad: complaints(bad) };
}

function complaints(bad: BadLines): string {
  try {
    bad.throwIfAny('list.csv');
    return '';
  } catch (error) {
    return String(error);
  }
}

test('a row is numbered by the line where it starts, whatever line breaks and blank lines come before', async () => {
  const { tasks } = await parsed('item,question\n1,"a\n\nb"\n\n\n2,c\n', '3,"d\ne"\n4,f\n');
  expect(tasks.map(({ line, item }) => [item, line])).toEqual([
    ['1', 2],
    ['2', 7],
    ['3', 8],
    ['4', 10],
  ]);
});

test('broken quoting is reported with the line where its record starts', async () => {
  const { bad } = await parsed('item,question\n1,"a\nb"\n\n\n"2"x,y\n3,c\n');
  expect(bad).toMatch(/line 6: broken quoting/);
});

test('a quote that is never closed is reported with the line where its record starts', async () => {
  const { bad } = await parsed('item,question\n1,a\n2,"b\n', '3,c\n4,d\n');
  expect(bad).toMatch(/line 3: broken quoting.*Quote Not Closed/);
});

test('what stands before broken quoting is still read and judged', async () => {
  const { tasks, bad } = await parsed('item,question\n1,a\n2,b,b\n"3"x,c\n');
  expect(tasks).toMatchObject([{ item: '1' }]);
  expect(bad).toMatch(/line 3 \(item 2\): 3 fields where the header has 2/);
  expect(bad).toMatch(/line 4: broken quoting/);
});

test('a row with too few or too many fields is refused', async () => {
  const { tasks, bad } = await parsed('item,question\n1\n2,b,c\n3,d\n');
  expect(tasks).toMatchObject([{ item: '3' }]);
  expect(bad).toMatch(/line 2 \(item 1\): 1 fields where the header has 2/);
  expect(bad).toMatch(/line 3 \(item 2\): 3 fields where the header has 2/);
});

test.each([
  ['without a column item', 'question,id\n', /line 1: no column named item among "question", "id"/],
  ['separated by semicolons', 'item;question\n', /separated by commas/],
  ['with a column twice', 'item,question,question\n', /duplicate column "question"/],
  ['with a nameless column', 'item,\n', /column 2 has no name/],
])('a header %s is refused', async (_, header, message) => {
  const { tasks, bad } = await parsed(`${header}1,a\n`);
  expect(tasks).toEqual([]);
  expect(bad).toMatch(message);
});

test('a value survives whatever it holds: quotes, commas, line breaks of either kind, spaces', async () => {
  const value = fc.string({
    unit: fc.constantFrom('a', 'é', '"', ',', '\n', '\r\n', ' ', ';', "'", '\t', '😀'),
    maxLength: 12,
  });
  const list = fc.array(fc.record({ item: value, question: value }), { minLength: 1, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(list, async (tasks) => {
      const rows = tasks.map(({ item, question }) => `${quoted(item)},${quoted(question)}\r\n`);
      const { tasks: read, bad } = await parsed('item,question\r\n', ...rows);
      expect(bad).toBe('');
      expect(read.map(({ item, input }) => ({ item, input }))).toEqual(
        tasks.map(({ item, question }) => ({ item, input: { question } })),
      );
    }),
  );
});

function quoted(value: string): string {
  return `"${value.replaceAll('"', '""')}"`;
}

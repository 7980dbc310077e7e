import { Writable } from 'node:stream';
import { parse } from 'csv-parse/sync';
import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type AnswerFormat, exportAnswers } from '../../src/batch/export-answers.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch, type TestWorker, TestWorkers } from '../support/attempts.ts';
import { completeEvery } from '../support/complete-every.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let db: TestDatabase;
let client: Client;
let workers: TestWorkers;
let worker: TestWorker;

beforeAll(async () => {
  db = await createTestDatabase();
  client = await openClient({ url: db.url, as: 'auditor', applicationName: 'test answers' });
  workers = new TestWorkers(db, 'http://127.0.0.1:9'); // no test sends anything
  worker = await workers.add();
});
afterAll(async () => {
  await workers.closeAll();
  await client.end();
  await db.drop();
});

/** A batch whose tasks have these answers, as JSON text; one more task has none. */
async function answered(...results: string[]): Promise<string> {
  const batch = await loadTestBatch(db, { tasks: results.length + 1 });
  for (const result of results) {
    const { lease } = await worker.claim(batch);
    await db.pool.query('SELECT madrugada.complete_task($1, $2, $3, $4, 0)', [
      ...[lease.taskId, lease.workerId, lease.token, result],
    ]);
  }
  return batch;
}

async function exported(batch: string, format: AnswerFormat): Promise<string> {
  let text = '';
  const output = new Writable({
    highWaterMark: 1, // takes its time, as a pipe does
    write(chunk, _, done) {
      text += chunk;
      setImmediate(done);
    },
  });
  await exportAnswers(client, batch, format, output);
  return text;
}

/** The header and the cells of a CSV export but for the columns of the task. */
async function cells(batch: string): Promise<string[][]> {
  const rows: string[][] = parse(await exported(batch, 'csv'));
  return rows.map((row) => row.slice(4));
}

test('JSON Lines hold one answer a line in the order of the list, and none of unfinished tasks', async () => {
  const batch = await answered('{"text": "um"}', '"dois"', 'null');
  const lines = (await exported(batch, 'jsonl')).trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line)).map(({ item, result }) => [item, result])).toEqual([
    ['1', { text: 'um' }],
    ['2', 'dois'],
    ['3', null],
  ]);
});

test('numbers are spelled as they were answered, in every format', async () => {
  const batch = await answered('{"id": 12345678901234567890, "share": 1.10}');
  expect(await exported(batch, 'jsonl')).toContain('12345678901234567890');
  expect(await cells(batch)).toEqual([
    ['id', 'share'],
    ['12345678901234567890', '1.10'],
  ]);
});

test('JSON is one array, also of no answer', async () => {
  expect(JSON.parse(await exported(await answered('1', '2'), 'json'))).toMatchObject([{ result: 1 }, { result: 2 }]);
  expect(JSON.parse(await exported(await answered(), 'json'))).toEqual([]);
});

test('CSV has a column for every field that any answer has', async () => {
  const batch = await answered('{"text": "a", "pages": [1, 2]}', '{"text": "b\\n\\"c\\", d", "sure": false}', '{}');
  expect(await cells(batch)).toEqual([
    ['pages', 'sure', 'text'],
    ['[1,2]', '', 'a'],
    ['', 'false', 'b\n"c", d'],
    ['', '', ''],
  ]);
});

test('CSV keeps answers that are no objects in a column of their own, and fields named like our columns apart', async () => {
  const batch = await answered('{"item": "x", "result": "y"}', '"plain"', '7');
  expect(await cells(batch)).toEqual([
    ['result.item', 'result.result', 'result'],
    ['x', 'y', ''],
    ['', '', 'plain'],
    ['', '', '7'],
  ]);
});

test.each(['=1+1', '+1', '-1', '@SUM(A1)', '\tx', '\rx'])(
  'CSV neutralises %j, which a spreadsheet would run',
  async (text) => {
    const batch = await answered(JSON.stringify({ text }));
    expect(await cells(batch)).toEqual([['text'], [`'${text}`]]);
  },
);

test('CSV neutralises the name of a field, too', async () => {
  expect(await cells(await answered('{"=1+1": "a"}'))).toEqual([["'=1+1"], ['a']]);
});

test('a batch of several pages is exported whole and in order', async () => {
  const batch = await loadTestBatch(db, { tasks: 1_201 });
  const numbers = Array.from({ length: 1_201 }, (_, n) => n + 1);
  await completeEvery(db, batch, numbers);
  const lines = (await exported(batch, 'jsonl')).trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line).result)).toEqual(numbers);
});

test('an output that fails fails the export, and the connection serves on', async () => {
  const batch = await answered('1');
  const broken = new Writable({ write: (_, __, done) => done(new Error('the disk is full')) });
  await expect(exportAnswers(client, batch, 'jsonl', broken)).rejects.toThrow('the disk is full');
  expect(await exported(batch, 'jsonl')).toContain('"result":1');
});

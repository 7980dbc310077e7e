import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type LoadedBatch, loadBatch } from '../../src/batch/load-batch.ts';
import { readTasks } from '../../src/batch/read-tasks.ts';
import { MadrugadaError } from '../../src/errors.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let db: TestDatabase;
let client: Client;
const folder = mkdtempSync(join(tmpdir(), 'madrugada-load-'));
const anything = async () => [];

beforeAll(async () => {
  db = await createTestDatabase();
  client = await openClient({ url: db.url, as: 'operator', applicationName: 'test load' });
});
afterAll(async () => {
  await client.end();
  await db.drop();
  rmSync(folder, { recursive: true });
});

function file(name: string, content: string | Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function read(name: string, content: string | Buffer): Promise<{ item: string; input: unknown }[]> {
  const tasks = [];
  for await (const { item, inputJson } of readTasks(file(name, content), anything))
    tasks.push({ item, input: JSON.parse(inputJson) });
  return tasks;
}

function load(id: string, path: string, by: Client = client): Promise<LoadedBatch> {
  const batch = { id, version: 'v1', agent: 'prompt', agentOptions: {}, maxAttempts: 3, leaseSeconds: 600 };
  return loadBatch(by, { ...batch, doubtPolicy: 'pay_again' }, readTasks(path, anything));
}

async function tasksOf(batchKey: string): Promise<{ key: string; input: unknown }[]> {
  const { rows } = await db.pool.query('SELECT key, input FROM madrugada.task WHERE batch_key = $1 ORDER BY position', [
    batchKey,
  ]);
  return rows;
}

describe('reading a batch file', () => {
  test('CSV with quotes, line breaks inside of them and a byte-order mark', async () => {
    expect(await read('a.csv', '\uFEFFitem,question\r\n1,"He said ""no"",\r\nthen left"\r\n2,água\r\n')).toEqual([
      { item: '1', input: { question: 'He said "no",\r\nthen left' } },
      { item: '2', input: { question: 'água' } },
    ]);
  });

  test('JSON Lines keep numbers as they are written', async () => {
    for await (const { inputJson } of readTasks(
      file('n.jsonl', '{"item":"1","n":1.10,"big":12345678901234567890}\n'),
      anything,
    ))
      expect(inputJson).toContain('12345678901234567890');
  });

  test('a file that is not UTF-8 is refused with the line', async () => {
    const latin1 = Buffer.from('item,question\n1,plain\n2,\xe1gua\n', 'latin1');
    await expect(read('latin1.csv', latin1)).rejects.toThrow(/3.*UTF-8|UTF-8.*3/s);
  });

  test.each([
    ['an empty item', 'item,question\n1,a\n ,b\n', /line 3.*empty/],
    ['a duplicate item, with both lines', 'item,question\n1,a\n2,b\n1,c\n', /line 4.*line 2/],
    ['no item at all', '{"question":"a"}\n', /line 1.*no item/],
    ['a NUL character', '{"item":"1","question":"a\\u0000b"}\n', /line 1.*NUL/],
    ['no task', 'item,question\n', /holds no task/],
  ])('refused: %s', async (_, content, message) => {
    await expect(read(content.startsWith('{') ? 'bad.jsonl' : 'bad.csv', content)).rejects.toThrow(message);
  });

  test('twenty bad lines are named, the others are counted', async () => {
    const lines = Array.from({ length: 25 }, () => '{"question":"no item"}\n').join('');
    const error: unknown = await read('many.jsonl', lines).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(MadrugadaError);
    const { message } = error as MadrugadaError;
    expect(message.match(/line \d+/g)).toHaveLength(20);
    expect(message).toMatch(/\b5\b/);
  });

  test('any items and inputs survive JSON Lines', async () => {
    const item = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }).filter((text) => text.trim() !== '');
    const list = fc.uniqueArray(fc.record({ item, question: fc.string({ unit: 'grapheme' }) }), {
      selector: ({ item }) => item,
      minLength: 1,
      maxLength: 5,
    });
    await fc.assert(
      fc.asyncProperty(list, async (tasks) => {
        const text = tasks.map((task) => `${JSON.stringify(task)}\n`).join('');
        fc.pre(!text.includes('\\u0000'));
        expect(await read('any.jsonl', text)).toEqual(tasks.map(({ item, ...input }) => ({ item, input })));
      }),
      { numRuns: 50 },
    );
  });
});

describe('loading a list', () => {
  test('a bad last line leaves nothing in the database', async () => {
    const path = file('half.jsonl', '{"item":"1","question":"a"}\n{"item":"2","question":"b"}\n{broken\n');
    await expect(load('half', path)).rejects.toThrow(/line 3/);
    expect(await tasksOf('half:v1')).toEqual([]);
    expect((await db.pool.query("SELECT FROM madrugada.batch WHERE id = 'half'")).rowCount).toBe(0);
  });

  test('the same list again changes nothing', async () => {
    const path = file('same.csv', 'item,question\n1,a\n2,b\n');
    expect(await load('same', path)).toMatchObject({ loaded: true, tasks: 2 });
    expect(await load('same', path)).toMatchObject({ loaded: false, tasks: 2 });
    expect(await tasksOf('same:v1')).toHaveLength(2);
  });

  test('another list under the same name is refused with the difference by item', async () => {
    await load('diff', file('diff1.csv', 'item,question\n1,a\n2,b\n3,c\n'));
    const error: unknown = await load('diff', file('diff2.csv', 'item,question\n1,a\n2,B\n4,d\n')).catch(
      (e: unknown) => e,
    );
    expect(error).toMatchObject({ exitCode: 2 });
    const { message } = error as Error;
    expect(message).toMatch(/changed: item 2/);
    expect(message).toMatch(/3/);
    expect(message).toMatch(/4/);
    expect(await tasksOf('diff:v1')).toHaveLength(3);
  });

  test('two loads of the same list at once make one batch', async () => {
    const path = file(
      'twice.csv',
      `item,question\n${Array.from({ length: 500 }, (_, n) => `${n},q${n}`).join('\n')}\n`,
    );
    const other = await openClient({ url: db.url, as: 'operator', applicationName: 'test load' });
    const loads = await Promise.all([load('twice', path), load('twice', path, other)]);
    await other.end();
    expect(loads.map(({ loaded }) => loaded).sort()).toEqual([false, true]);
    expect(await tasksOf('twice:v1')).toHaveLength(500);
  });

  test('colons in items make no two keys equal', async () => {
    await load('colon', file('colon.jsonl', '{"item":"a:v1"}\n{"item":"a"}\n{"item":":"}\n'));
    expect((await tasksOf('colon:v1')).map(({ key }) => key)).toEqual(['colon:a:v1:v1', 'colon:a:v1', 'colon:::v1']);
    await expect(load('a:b', file('id.csv', 'item\n1\n'))).rejects.toThrow(/letters, digits/);
  });
});

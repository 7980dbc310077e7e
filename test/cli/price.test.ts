import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readPrices } from '../../src/provider/read-prices.ts';
import { runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { used } from '../support/prices.ts';
import { testFolder } from '../support/test-folder.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db?.drop());

const PRICE = {
  valid_from: '2026-12-01',
  input: '7',
  output: '8',
  cache_read: '1',
  cache_write_5m: '9',
  cache_write_1h: '10',
};

function price(...words: string[]) {
  return runCommand(['price', ...words, '--json'], { environment: { DATABASE_URL: db.url } });
}

function fileOf(prices: object[]): string {
  const file = join(testFolder(), 'prices.json');
  writeFileSync(file, JSON.stringify({ models: [{ model: 'my-model', prices }] }));
  return file;
}

test('a loaded price counts from its date on, is listed, and leaves an audit row with who loaded it', async () => {
  const file = fileOf([{ ...PRICE, above: [{ ...PRICE, valid_from: undefined, input_tokens: 100, input: '70' }] }]);
  const { code, stderr } = await price('load', file, '--by', 'ana');
  const listed = JSON.parse((await price('list', 'my-model')).stdout);
  const book = await readPrices(db.pool);
  const { rows } = await db.pool.query(`SELECT by_name, event FROM madrugada.audit_event WHERE subject = 'price'`);

  expect([code, stderr]).toEqual([0, '']);
  expect(book.costOf('my-model', used({ inputTokens: 100 }), new Date('2026-12-01'))?.toFixed()).toBe('0.0007');
  expect(book.costOf('my-model', used({ inputTokens: 101 }), new Date('2026-12-01'))?.toFixed()).toBe('0.00707');
  expect(book.costOf('my-model', used({ inputTokens: 100 }), new Date('2026-11-30'))).toBeUndefined();
  expect(listed).toMatchObject([{ model: 'my-model', input: '7', of: 'a person' }, { input: '70' }]);
  expect(rows).toEqual([
    { by_name: 'ana', event: 'added' },
    { by_name: 'ana', event: 'added' },
  ]);
});

test('a file with a wrong price changes nothing, and the place is named', async () => {
  const before = await db.pool.query('SELECT count(*) FROM madrugada.model_price');
  const { code, stdout } = await price('load', fileOf([PRICE, { ...PRICE, input: 3 }]), '--by', 'ana');

  expect(code).toBe(2);
  expect(stdout).toContain('models.0.prices.1.input');
  expect((await db.pool.query('SELECT count(*) FROM madrugada.model_price')).rows).toEqual(before.rows);
});

test('the lists that come with the program are listed', async () => {
  const { stdout } = await price('list', 'claude-haiku-4-5');
  expect(JSON.parse(stdout)).toMatchObject([{ input: '1', output: '5', of: 'the program' }]);
});

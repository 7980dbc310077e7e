import Big from 'big.js';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import anthropic from '../../src/provider/prices/anthropic.json' with { type: 'json' };
import openai from '../../src/provider/prices/openai.json' with { type: 'json' };
import { PriceBook } from '../../src/provider/prices.ts';
import { readPrices } from '../../src/provider/read-prices.ts';
import type { Usage } from '../../src/provider/usage.ts';
import { chargeFor, LISTED_MODELS } from '../../src/simulator/price-list.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { band, priceOf, used } from '../support/prices.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db?.drop());

const NIGHT = new Date('2026-12-01T02:00:00Z');

const million = new PriceBook([priceOf('m', '2026-01-01', '3')]);
const costOf = (counts: Partial<Usage>) => million.costOf('m', used(counts), NIGHT)?.toFixed();

test('each kind of token has its own price', () => {
  expect([
    costOf({ inputTokens: 1_000_000 }),
    costOf({ outputTokens: 1_000_000 }),
    costOf({ cacheReadTokens: 1_000_000 }),
    costOf({ cacheWrite5mTokens: 1_000_000 }),
    costOf({ cacheWrite1hTokens: 1_000_000 }),
  ]).toEqual(['3', '15', '0.3', '3.75', '6']);
});

test('costs are exact decimals, not floats', () => {
  const book = new PriceBook([priceOf('m', '2026-01-01', '0.1')]);
  const cost = book.costOf('m', used({ inputTokens: 1, cacheReadTokens: 2 }), NIGHT);
  expect(cost?.toFixed()).toBe('0.00000012');
});

test('the costs of parts add up exactly to the cost of the whole', () => {
  const counts = fc.record({
    inputTokens: fc.nat(),
    outputTokens: fc.nat(),
    cacheReadTokens: fc.nat(),
    cacheWrite5mTokens: fc.nat(),
    cacheWrite1hTokens: fc.nat(),
  });
  fc.assert(
    fc.property(counts, (usage) => {
      const parts = Object.entries(usage).map(([kind, count]) => new Big(costOf({ [kind]: count }) ?? 'none'));
      return new Big(costOf(usage) ?? 'none').eq(parts.reduce((sum, part) => sum.plus(part), new Big(0)));
    }),
  );
});

test('a price that changes on a date does not apply to the day before', () => {
  const book = new PriceBook([priceOf('m', '2026-12-01', '4'), priceOf('m', '2026-01-01', '3')]);
  const at = (time: string) => book.costOf('m', used({ inputTokens: 1_000_000 }), new Date(time))?.toFixed();
  expect([at('2026-11-30T23:59:59.999Z'), at('2026-12-01T00:00:00Z')]).toEqual(['3', '4']);
});

test('a model without a known price, or before its first one, has none: it is not free', () => {
  expect(million.costOf('other', used({ inputTokens: 1 }), NIGHT)).toBeUndefined();
  expect(million.costOf('m', used({ inputTokens: 1 }), new Date('2025-12-31'))).toBeUndefined();
});

test('a dated model name has the price of its undated one, unless it has its own', () => {
  const book = new PriceBook([priceOf('m', '2026-01-01', '3'), priceOf('m-20260202', '2026-01-01', '9')]);
  const costs = ['m-20260101', 'm-20260202', 'm-2026'].map((model) =>
    book.costOf(model, used({ inputTokens: 1_000_000 }), NIGHT)?.toFixed(),
  );
  expect(costs).toEqual(['3', '9', undefined]);
});

test('the price list that comes with the schema is read exactly', async () => {
  const book = await readPrices(db.pool);
  const usage = used({
    inputTokens: 1,
    outputTokens: 1,
    cacheReadTokens: 1,
    cacheWrite5mTokens: 1,
    cacheWrite1hTokens: 1,
  });
  expect(book.costOf('claude-haiku-4-5-20251001', usage, NIGHT)?.toFixed()).toBe('0.00000935');
});

test('an operator’s later price takes over at midnight UTC of its date', async () => {
  await db.pool.query(`INSERT INTO madrugada.model_price VALUES ('claude-haiku-4-5', '2026-12-01', 2, 0, 0, 0, 0)`);
  const book = await readPrices(db.pool);
  const at = (time: string) =>
    book.costOf('claude-haiku-4-5', used({ inputTokens: 1_000_000 }), new Date(time))?.toFixed();
  expect([at('2026-11-30T23:59:59.999Z'), at('2026-12-01T00:00:00Z')]).toEqual(['1', '2']);
});

test('a long prompt is priced by its band as a whole, cache reads and writes counting towards its length', () => {
  const book = new PriceBook([
    priceOf('m', '2026-01-01', '3', { bands: [band(0, '3', '15'), band(200_000, '6', '22.5')] }),
  ]);
  const cost = (counts: Partial<Usage>) => book.costOf('m', used(counts), NIGHT)?.toFixed();
  expect(cost({ inputTokens: 200_000, outputTokens: 1_000 })).toBe('0.615');
  expect(cost({ inputTokens: 200_001, outputTokens: 1_000 })).toBe('1.222506');
  expect(cost({ inputTokens: 1, cacheReadTokens: 200_000 })).toBe('0.120006');
});

test('a tier or mode multiplies the tokens; one without a factor has no price, rather than the standard one', () => {
  const factors = new Map([
    ['batch', new Big('0.5')],
    ['us', new Big('1.1')],
  ]);
  const book = new PriceBook([priceOf('m', '2026-01-01', '2', { factors })]);
  const cost = (...modes: string[]) => book.costOf('m', used({ inputTokens: 1_000_000, modes }), NIGHT)?.toFixed();
  expect([cost(), cost('batch'), cost('us'), cost('batch', 'us'), cost('priority')]).toEqual([
    '2',
    '1',
    '2.2',
    '1.1',
    undefined,
  ]);
});

test('a use of the provider’s own tool costs its fee; one without a fee has no price', () => {
  const book = new PriceBook([
    priceOf('m', '2026-01-01', '2', { serverToolsPer1000: new Map([['web_search', new Big(10)]]) }),
  ]);
  const cost = (serverToolUses: Record<string, number>) => book.costOf('m', used({ serverToolUses }), NIGHT)?.toFixed();
  expect([cost({ web_search: 3 }), cost({ web_search: 3, code_execution: 1 })]).toEqual(['0.03', undefined]);
});

test('a person’s price counts before a built-in one, also where that is of a later date', () => {
  const book = new PriceBook([priceOf('m', '2026-06-01', '9', { builtIn: true }), priceOf('m', '2026-01-01', '3')]);
  const cost = (at: string) => book.costOf('m', used({ inputTokens: 1_000_000 }), new Date(at))?.toFixed();
  expect([cost('2026-12-01'), cost('2025-12-31')]).toEqual(['3', undefined]);
});

test('what the simulated provider charges is what the built-in lists say', async () => {
  const book = await readPrices(db.pool);
  for (const model of LISTED_MODELS) {
    const { inputTokens, outputTokens, costUsd } = chargeFor(model, 1_000);
    expect(book.costOf(model, used({ inputTokens, outputTokens }), new Date('2026-11-30'))?.toFixed(), model).toBe(
      costUsd,
    );
  }
});

test('a built-in price is valid from a day on which its model existed, or says that the day is not known', () => {
  for (const { models } of [anthropic, openai])
    for (const { model, prices } of models)
      for (const price of prices) {
        const isPlaceholder = price.valid_from === '2025-01-01';
        expect('comment' in price && /not known/.test(String(price.comment)), model).toBe(isPlaceholder);
      }
});

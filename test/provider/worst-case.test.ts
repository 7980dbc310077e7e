import Big from 'big.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { clampMaxTokens } from '../../src/provider/clamp-max-tokens.ts';
import { builtInPrices } from '../../src/provider/price-list.ts';
import { PriceBook } from '../../src/provider/prices.ts';
import { band, priceOf, used } from '../support/prices.ts';

const NIGHT = new Date('2026-12-01T02:00:00Z');
const book = new PriceBook([
  ...builtInPrices(),
  priceOf('long', '2026-01-01', '3', {
    bands: [band(0, '3', '15'), band(200_000, '6', '22.5')],
    contextTokens: 1_000_000,
    serverToolsPer1000: new Map([['web_search', new Big(10)]]),
  }),
]);

function worst(body: object, path = '/v1/messages', method = 'POST') {
  const bytes = Buffer.from(JSON.stringify(body));
  const model = 'model' in body && typeof body.model === 'string' ? body.model : undefined;
  return book.worstCaseOf({ method, path, body: bytes }, model, NIGHT);
}

function dollars(body: object): number {
  const result = worst(body);
  if ('problem' in result) throw new Error(result.problem);
  return Number(result.usd);
}

function problem(body: object): string {
  const result = worst(body);
  return 'problem' in result ? result.problem : '';
}

const ask = (differing: object = {}) => ({
  model: 'claude-haiku-4-5',
  max_tokens: 1_000,
  messages: [{ role: 'user', content: 'hello' }],
  ...differing,
});

test('a request costs at most its bytes as input and max_tokens as output', () => {
  const body = ask({ messages: [{ role: 'user', content: 'x'.repeat(100_000) }] });
  expect(dollars(body)).toBeGreaterThan(0.1 + 0.005);
  expect(dollars(body)).toBeLessThan(0.12);
});

for (const field of ['max_tokens', 'max_completion_tokens', 'max_output_tokens'])
  test(`${field} bounds the output`, () => {
    const { max_tokens: _, ...others } = ask();
    expect(dollars({ ...others, [field]: 9_000 }) - dollars({ ...others, [field]: 1_000 })).toBeCloseTo(0.04, 10);
  });

test('a request that says no limit may write as much as the model can', () => {
  const { max_tokens: _, ...others } = ask();
  expect(dollars(others)).toBeGreaterThanOrEqual(64_000 * 5e-6);
});

test('cache writes are dearer, and counted only where they are asked for', () => {
  const text = 'x'.repeat(50_000);
  const cached = (cache_control?: object) =>
    dollars(
      ask({ messages: [{ role: 'user', content: [{ type: 'text', text, ...(cache_control && { cache_control }) }] }] }),
    );
  const none = cached();
  expect(cached({ type: 'ephemeral' }) / none).toBeCloseTo(1.25, 0.1);
  expect(cached({ type: 'ephemeral', ttl: '1h' })).toBeGreaterThan(cached({ type: 'ephemeral' }));
});

test('a document that is somewhere else may fill the context window', () => {
  const content = [{ type: 'document', source: { type: 'url', url: 'https://example.org/a.pdf' } }];
  expect(dollars(ask({ messages: [{ role: 'user', content }] }))).toBeGreaterThanOrEqual(0.2);
});

test('the dearer band counts where the bytes could reach it', () => {
  const short = dollars({ ...ask(), model: 'long', messages: [{ role: 'user', content: 'x'.repeat(150_000) }] });
  const long = dollars({ ...ask(), model: 'long', messages: [{ role: 'user', content: 'x'.repeat(210_000) }] });
  expect(long / short).toBeGreaterThan(2.5);
});

test('the provider’s own tool is priced by its uses, and refused where they have no end', () => {
  const search = (differing: object) => ({
    ...ask(),
    model: 'long',
    tools: [{ type: 'web_search_20250305', name: 'web_search', ...differing }],
  });
  expect(dollars(search({ max_uses: 5 }))).toBeGreaterThan(0.05);
  expect(problem(search({}))).toContain('max_uses');
});

test('a model without a known price is refused, with the line to add', () => {
  const words = problem(ask({ model: 'brand-new' }));
  expect(words).toContain('the price of model brand-new is not known');
  expect(words).toContain('"model":"brand-new"');
});

test('a request that names no model is refused, and one that nobody charges costs nothing', () => {
  expect(problem({ messages: [] })).toContain('names no model');
  expect(worst({}, '/v1/models', 'GET')).toMatchObject({ usd: new Big(0) });
  expect(worst(ask(), '/v1/messages/count_tokens')).toMatchObject({ usd: new Big(0) });
});

test('no answer costs more than the worst case of its request', () => {
  const model = fc.constantFrom('claude-haiku-4-5', 'claude-sonnet-4-5', 'claude-opus-4-6', 'long');
  fc.assert(
    fc.property(
      model,
      fc.nat(400_000),
      fc.integer({ min: 1, max: 8_000 }),
      fc.float({ min: 0, max: 1, noNaN: true }),
      fc.boolean(),
      (model, size, most, share, caches) => {
        const text = {
          type: 'text',
          text: 'x'.repeat(size),
          ...(caches && { cache_control: { type: 'ephemeral', ttl: '1h' } }),
        };
        const result = worst({ model, max_tokens: most, messages: [{ role: 'user', content: [text] }] });
        if ('problem' in result) throw new Error(result.problem);
        const read = model === 'long' ? size : Math.min(size, 200_000); // no model reads more than its context window
        const written = caches ? Math.floor(read * share) : 0;
        const usage = used({ inputTokens: read - written, outputTokens: most, cacheWrite1hTokens: written });
        const cost = book.costOf(model, usage, NIGHT);
        return cost?.lte(result.usd) === true && cost.gte(0);
      },
    ),
    { numRuns: 200 },
  );
});

test('max_tokens is lowered, and every other byte stays as it was', () => {
  const body = '{ "model":"m","temperature":1.0, "max_tokens" : 64000,"metadata":{"max_tokens":64000}}';
  expect(Buffer.from(clampMaxTokens(Buffer.from(body), 500)).toString()).toBe(body.replace(': 64000,', ': 500,'));
  const low = Buffer.from('{"max_tokens":100}');
  expect(clampMaxTokens(low, 500)).toBe(low);
});

test('max_tokens that is null is no limit, and is lowered to what is allowed', () => {
  const body = '{"model":"m","max_tokens":null,"messages":[]}';
  expect(Buffer.from(clampMaxTokens(Buffer.from(body), 500)).toString()).toBe(body.replace('null', '500'));
});

import { expect, test } from 'vitest';
import { announcedLimits, countsCacheReads } from '../../src/provider/rate-limits.ts';

const requestsIn = (headers: Record<string, string>) => announcedLimits(headers).requests;

test('the announced rate of requests is read from Anthropic’s header and from OpenAI’s', () => {
  expect(requestsIn({ 'anthropic-ratelimit-requests-limit': '50' })).toBe(50);
  expect(requestsIn({ 'x-ratelimit-limit-requests': ' 500 ' })).toBe(500);
});

for (const said of ['', '0', '-1', '1.5', 'unlimited', '999999999999'])
  test(`"${said}" announces no rate`, () => {
    expect(announcedLimits({ 'anthropic-ratelimit-requests-limit': said })).toEqual({});
    expect(announcedLimits({ 'anthropic-ratelimit-input-tokens-limit': said })).toEqual({});
  });

test('limits of tokens are read with what is left of them: of input and output with Anthropic, of both together with either', () => {
  expect(
    announcedLimits({
      'anthropic-ratelimit-input-tokens-limit': '30000',
      'anthropic-ratelimit-input-tokens-remaining': '27500',
      'anthropic-ratelimit-output-tokens-limit': '8000',
      'anthropic-ratelimit-output-tokens-remaining': '0',
      'anthropic-ratelimit-tokens-limit': '38000',
      'anthropic-ratelimit-tokens-remaining': '27000',
    }),
  ).toEqual({
    input: { limit: 30_000, remaining: 27_500 },
    output: { limit: 8_000, remaining: 0 },
    tokens: { limit: 38_000, remaining: 27_000 },
  });
  expect(
    announcedLimits({
      'x-ratelimit-limit-tokens': '160000',
      'x-ratelimit-remaining-tokens': '159976',
      'x-ratelimit-reset-tokens': '9ms',
    }),
  ).toEqual({ tokens: { limit: 160_000, remaining: 159_976 } });
  expect(announcedLimits({ 'x-ratelimit-limit-tokens': '160000' })).toEqual({
    tokens: { limit: 160_000, remaining: undefined },
  });
});

/** OpenAI's headers for requests. */
function ofRequests(limit: number, remaining: number, reset: string): Record<string, string> {
  return {
    'x-ratelimit-limit-requests': String(limit),
    'x-ratelimit-remaining-requests': String(remaining),
    'x-ratelimit-reset-requests': reset,
  };
}

for (const reset of ['12ms', '1s', '59.70', '1m0s', '1m0.4s'])
  test(`a limit of requests that is whole again in ${reset} is a minute’s`, () => {
    expect(requestsIn(ofRequests(5000, 0, reset))).toBe(5000);
    expect(requestsIn(ofRequests(5000, 4999, reset))).toBe(5000);
  });

for (const reset of ['23h59m51.36s', '7m12s', '1d', '3600'])
  test(`a limit of requests that is whole again only in ${reset} is a day’s: with something left it sets no pace, else its average does`, () => {
    expect(requestsIn(ofRequests(14_400, 9_000, reset))).toBeNull();
    expect(requestsIn(ofRequests(14_400, 0, reset))).toBe(10);
  });

test('a limit of tokens that is not a minute’s is none for the pace', () => {
  const headers = { 'x-ratelimit-limit-tokens': '2000000', 'x-ratelimit-reset-tokens': '11h2m' };
  expect(announcedLimits(headers)).toEqual({});
});

test('a reset that cannot be read leaves the limit a minute’s', () => {
  expect(requestsIn(ofRequests(60, 0, 'soon'))).toBe(60);
  expect(requestsIn(ofRequests(60, 0, ''))).toBe(60);
});

test('what is read from the cache counts with OpenAI, not with Anthropic', () => {
  expect(countsCacheReads({ 'x-ratelimit-limit-tokens': '1' })).toBe(true);
  expect(countsCacheReads({ 'anthropic-ratelimit-tokens-limit': '1' })).toBe(false);
});

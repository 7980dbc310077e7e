import { expect, test } from 'vitest';
import { requestsPerMinute } from '../../src/provider/rate-limits.ts';

test('the announced rate is read from Anthropic’s header and from OpenAI’s', () => {
  expect(requestsPerMinute({ 'anthropic-ratelimit-requests-limit': '50' })).toBe(50);
  expect(requestsPerMinute({ 'x-ratelimit-limit-requests': ' 500 ' })).toBe(500);
});

for (const said of ['', '0', '-1', '1.5', 'unlimited', '999999999999'])
  test(`"${said}" announces no rate`, () => {
    expect(requestsPerMinute({ 'anthropic-ratelimit-requests-limit': said })).toBeUndefined();
  });

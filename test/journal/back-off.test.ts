import fc from 'fast-check';
import { expect, test } from 'vitest';
import { waitAfter } from '../../src/journal/back-off.ts';
import { DEFAULT_LIMITS } from '../../src/journal/environment.ts';
import type { DispatchEnd } from '../../src/provider/refusal.ts';

const refused = (retryAfterMs?: number): DispatchEnd => ({
  kind: 'refused',
  charge: 'none',
  message: 'no',
  retryAfterMs,
  onLoad: false,
});
const HOUR_MS = 3_600_000;

test('without a word of the provider the wait is drawn from nought to a bound that doubles up to half a minute', () => {
  const bounds = [1, 2, 3, 4, 5, 6, 7].map((tries) => waitAfter(refused(), tries, 0, DEFAULT_LIMITS, () => 1));
  expect(bounds).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  expect(waitAfter(refused(), 3, 0, DEFAULT_LIMITS, () => 0.5)).toBe(2000);
  expect(waitAfter(refused(), 3, 0, DEFAULT_LIMITS, () => 0)).toBe(0);
});

test('a wait that the provider asks for is never shortened, and spread out: all who were refused together do not return together', () => {
  expect(waitAfter(refused(8000), 1, 0, DEFAULT_LIMITS, () => 0)).toBe(8000);
  expect(waitAfter(refused(8000), 1, 0, DEFAULT_LIMITS, () => 1)).toBe(10_000);
  const waits = Array.from({ length: 64 }, () => waitAfter(refused(8000), 1, 0, DEFAULT_LIMITS));
  expect(new Set(waits).size).toBe(64);
});

test('a wait that the provider asks for is believed up to the cap', () => {
  expect(waitAfter(refused(24 * HOUR_MS), 1, 0, DEFAULT_LIMITS, () => 0)).toBe(HOUR_MS);
  expect(waitAfter(refused(9000), 1, 0, { ...DEFAULT_LIMITS, retryAfterCapMs: 5000 }, () => 0)).toBe(5000);
});

test('a call is not sent again when its dispatches are used up', () => {
  expect(waitAfter(refused(), 7, 0, DEFAULT_LIMITS)).toBeDefined();
  expect(waitAfter(refused(), 8, 0, DEFAULT_LIMITS)).toBeUndefined();
});

test('no wait ends after the time of its call', () => {
  const times = fc.record({
    spentMs: fc.nat(4 * HOUR_MS),
    askedMs: fc.option(fc.nat(2 * HOUR_MS), { nil: undefined }),
  });
  fc.assert(
    fc.property(times, ({ spentMs, askedMs }) => {
      const wait = waitAfter(refused(askedMs), 1, spentMs, DEFAULT_LIMITS);
      expect(spentMs + (wait ?? 0) <= 3 * HOUR_MS || wait === undefined).toBe(true);
    }),
  );
  expect(waitAfter(refused(1000), 1, 3 * HOUR_MS - 999, DEFAULT_LIMITS)).toBeUndefined();
});

for (const [end, isRepeated] of [
  [{ kind: 'completed' }, false],
  [{ kind: 'not sent', message: '' }, true],
  [{ kind: 'unknown', message: '' }, true],
  [{ kind: 'refused', charge: 'possible', message: '', retryAfterMs: undefined, onLoad: false }, true],
  [{ kind: 'permanent for task', charge: 'none', message: '' }, false],
  [{ kind: 'permanent for batch', charge: 'possible', message: '' }, false],
] as [DispatchEnd, boolean][])
  test(`a call whose dispatch ended as ${end.kind} is ${isRepeated ? '' : 'not '}sent again`, () => {
    expect(waitAfter(end, 1, 0, DEFAULT_LIMITS) !== undefined).toBe(isRepeated);
  });

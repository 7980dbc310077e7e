import { expect, test } from 'vitest';
import { DEFAULT_LIMITS } from '../../src/journal/environment.ts';
import { workerSettings } from '../../src/worker/settings.ts';

const limitsOf = (environment: NodeJS.ProcessEnv) =>
  workerSettings({ ANTHROPIC_API_KEY: 'dummy', ...environment }).limits;

for (const [variable, limit] of [
  ['MADRUGADA_DISPATCH_SECONDS', 'dispatchMs'],
  ['MADRUGADA_HEADERS_SECONDS', 'headersMs'],
  ['MADRUGADA_IDLE_SECONDS', 'idleMs'],
  ['MADRUGADA_CALL_SECONDS', 'callMs'],
  ['MADRUGADA_RETRY_AFTER_CAP_SECONDS', 'retryAfterCapMs'],
  ['MADRUGADA_MAX_WAIT_SECONDS', 'maxWaitMs'],
] as const)
  test(`${variable} sets a limit of a worker, in seconds, and must be greater than nought`, () => {
    expect(limitsOf({ [variable]: '1.5' })[limit]).toBe(1500);
    expect(limitsOf({})[limit]).toBe(DEFAULT_LIMITS[limit]);
    expect(() => limitsOf({ [variable]: '0' })).toThrow(`${variable} must be a number greater than 0, not "0"`);
  });

test('a response may take as long to begin as the whole dispatch may, unless that is said otherwise', () => {
  expect(limitsOf({ MADRUGADA_DISPATCH_SECONDS: '900' }).headersMs).toBe(900_000);
});

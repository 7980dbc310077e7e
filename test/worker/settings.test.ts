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

const lookUpOf = (MADRUGADA_LOOK_UP: string) =>
  workerSettings({ ANTHROPIC_API_KEY: 'dummy', MADRUGADA_LOOK_UP }).lookUp;

for (const url of ['https://gateway.example/v1/dispatches/{tag}', 'http://127.0.0.1:8089/look-up?tag={tag}&full=1'])
  test(`MADRUGADA_LOOK_UP may be ${url}`, () => {
    expect(lookUpOf(url)).toEqual({ urlTemplate: url, apiKey: 'dummy' });
  });

for (const [url, what] of [
  ['gateway.example/{tag}', 'it names no protocol'],
  ['/v1/dispatches/{tag}', 'it names no host'],
  ['ftp://gateway.example/{tag}', 'nothing is looked up by ftp'],
  ['file:///dispatches/{tag}', 'nothing is looked up in files'],
  ['https:///{tag}', 'its host would be the tag'],
  ['https://{tag}.example/v1', 'each tag would ask, with the key, another host'],
  ['https://gateway.example:port/{tag}', 'its port is no number'],
  ['https://gateway.example/v1/dispatches', 'it has no place for the tag'],
  ['https://gateway.example/v1/dispatches/{TAG}', 'it has no place for the tag that is spelt so'],
  ['https://gateway.example/v1/dispatches#{tag}', 'a fragment is not sent'],
  ['https://ana:secret@gateway.example/{tag}', 'credentials in a URL are not sent'],
  ['{tag}', 'it is no URL'],
  [' ', 'it is no URL'],
] as const)
  test(`MADRUGADA_LOOK_UP may not be "${url}": ${what}`, () => {
    expect(() => lookUpOf(url)).toThrow(/^MADRUGADA_LOOK_UP must be/);
  });

test('what is wrong with MADRUGADA_LOOK_UP is said without the password in it', () => {
  expect(() => lookUpOf('https://ana:secret@gateway.example/{tag}')).toThrow('not "https://…@gateway.example/{tag}"');
});

test('a worker that may stand still for less than a wait for a provider is not stuck while it waits', () => {
  const settings = (environment: NodeJS.ProcessEnv) => workerSettings({ ANTHROPIC_API_KEY: 'dummy', ...environment });
  expect(settings({}).stuckMs).toBe(900_000);
  expect(settings({ MADRUGADA_MAX_WAIT_SECONDS: '1200' }).stuckMs).toBe(1_500_000);
});

test('a response may take as long to begin as the whole dispatch may, unless that is said otherwise', () => {
  expect(limitsOf({ MADRUGADA_DISPATCH_SECONDS: '900' }).headersMs).toBe(900_000);
});

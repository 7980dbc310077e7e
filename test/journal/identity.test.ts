import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { identify, readRequest } from '../../src/journal/request.ts';
import { question } from '../support/journal-bench.ts';

const URL_OF_MESSAGES = 'http://127.0.0.1/v1/messages';
const BODY = JSON.stringify(question('one'));

async function identityOf(body: RequestInit['body'], init: RequestInit = {}, url = URL_OF_MESSAGES): Promise<string> {
  const request = await readRequest(url, { method: 'POST', ...init, ...(body !== undefined && { body }) });
  return identify(request).sha256.toString('hex');
}

test('key order and white space of the body do not change a request’s identity', async () => {
  expect(await identityOf('{"b": 1, "a": 2}')).toBe(await identityOf('{"a":2,"b":1}'));
});

test('1 and 1.0 are two requests: a model may see the difference', async () => {
  expect(await identityOf('{"temperature":1}')).not.toBe(await identityOf('{"temperature":1.0}'));
});

test('a body that is not JSON is identified by its bytes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array(), fc.uint8Array(), async (a, b) => {
      const same = Buffer.compare(a, b) === 0;
      return (
        ((await identityOf(Buffer.concat([Buffer.from('{'), a]))) ===
          (await identityOf(Buffer.concat([Buffer.from('{'), b])))) ===
        same
      );
    }),
  );
});

test('bytes that are not UTF-8 are not read as JSON', async () => {
  expect(await identityOf(Buffer.from('"\xff"', 'latin1'))).not.toBe(await identityOf(Buffer.from('"\xfe"', 'latin1')));
});

for (const [encoding, compress] of [
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
] as const)
  test(`a body compressed with ${encoding} is the same request as the plain one`, async () => {
    const compressed = await identityOf(new Uint8Array(compress(BODY)), { headers: { 'content-encoding': encoding } });
    expect(compressed).toBe(await identityOf(BODY));
  });

test('two levels of compression of one body are one request', async () => {
  const headers = { 'content-encoding': 'gzip' };
  const [fast, small] = [1, 9].map((level) => new Uint8Array(gzipSync('a'.repeat(9_999), { level })));
  expect(Buffer.compare(fast ?? new Uint8Array(), small ?? new Uint8Array())).not.toBe(0);
  expect(await identityOf(fast, { headers })).toBe(await identityOf(small, { headers }));
});

test('the query string belongs to the identity', async () => {
  expect(await identityOf(BODY, {}, `${URL_OF_MESSAGES}?beta=true`)).not.toBe(await identityOf(BODY));
});

test('the path and the method belong to the identity', async () => {
  const identities = [
    await identityOf(BODY),
    await identityOf(BODY, { method: 'PUT' }),
    await identityOf(BODY, {}, `${URL_OF_MESSAGES}/count_tokens`),
  ];
  expect(new Set(identities).size).toBe(3);
});

test('anthropic-beta belongs to the identity', async () => {
  expect(await identityOf(BODY, { headers: { 'anthropic-beta': 'x' } })).not.toBe(await identityOf(BODY));
});

test('neither the host, nor the key, nor the version of an SDK belongs to the identity', async () => {
  const headers = {
    'user-agent': 'Anthropic/JS 9.9.9',
    'x-stainless-package-version': '9.9.9',
    'anthropic-version': '2030-01-01',
    traceparent: '00-1-2-01',
    authorization: 'Bearer another',
  };
  expect(await identityOf(BODY, { headers }, 'https://gateway.invalid/v1/messages')).toBe(await identityOf(BODY));
});

test('a body gives the same identity as a string, as bytes, as a stream and in a Request', async () => {
  const bytes = new TextEncoder().encode(BODY);
  const request = await readRequest(new Request(URL_OF_MESSAGES, { method: 'POST', body: BODY }), undefined);
  const identities = [
    await identityOf(BODY),
    await identityOf(bytes),
    await identityOf(new Blob([bytes]).stream(), { duplex: 'half' }),
    identify(request).sha256.toString('hex'),
  ];
  expect(new Set(identities).size).toBe(1);
});

test('the identity of a request stays what it was: journals outlive versions of this program', async () => {
  const request = await identityOf(
    '{"model":"m", "n":1.0}',
    { headers: { 'anthropic-beta': 'b' } },
    `${URL_OF_MESSAGES}?q=1`,
  );
  expect(request).toBe('3b15d923cb3f8e62ee414082c0dbecdb973be01560bd6acdd600fee313f1bdf1');
});

test('the model is read from the body, and is unknown where there is none', async () => {
  const modelOf = async (body: string) => identify(await readRequest(URL_OF_MESSAGES, { method: 'POST', body })).model;
  expect([await modelOf(BODY), await modelOf('{"model":7}'), await modelOf('[]'), await modelOf('{')]).toEqual([
    'claude-haiku-4-5',
    undefined,
    undefined,
    undefined,
  ]);
});

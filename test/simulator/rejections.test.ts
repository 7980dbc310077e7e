import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { ask, type ForkedSimulator, forkSimulator, temporaryFolder } from './forked-simulator.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let simulator: ForkedSimulator;

beforeAll(async () => {
  folder = await temporaryFolder();
  simulator = await forkSimulator(join(folder.path, 'bill.jsonl'));
});

afterAll(async () => {
  await simulator.stop();
  await folder.remove();
});

afterEach(async () => {
  expect(await simulator.billLines()).toEqual([]);
});

function post(body: string | Buffer, headers: Record<string, string> = { 'x-api-key': 'dummy' }): Promise<Response> {
  return fetch(`${simulator.url}/v1/messages`, { method: 'POST', headers, body });
}

test('a request without a key is an authentication error', async () => {
  const response = await post(JSON.stringify(ask('hello')), {});
  expect(response.status).toBe(401);
  expect(await response.json()).toMatchObject({ type: 'error', error: { type: 'authentication_error' } });
});

test('a body that is not JSON is an invalid request', async () => {
  const response = await post('{"model":');
  const body = JSON.parse(await response.text());
  expect(response.status).toBe(400);
  expect(body).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } });
  expect(body.request_id).toBe(response.headers.get('request-id'));
});

test.each(['model', 'max_tokens', 'messages'])(
  'a request without %s is an invalid request that names it',
  async (field) => {
    const response = await post(JSON.stringify({ ...ask('hello'), [field]: undefined }));
    expect(response.status).toBe(400);
    expect(JSON.parse(await response.text()).error.message).toMatch(new RegExp(`^${field}: `));
  },
);

test('a body beyond 32 MB is too large', async () => {
  const response = await post(Buffer.alloc(32 * 1024 * 1024 + 1, ' '));
  expect(response.status).toBe(413);
  expect(await response.json()).toMatchObject({ error: { type: 'request_too_large' } });
});

test('an unknown path is not found', async () => {
  const response = await fetch(`${simulator.url}/v1/complete`, {
    method: 'POST',
    headers: { authorization: 'Bearer x' },
  });
  expect(response.status).toBe(404);
  expect(await response.json()).toMatchObject({ error: { type: 'not_found_error' } });
});

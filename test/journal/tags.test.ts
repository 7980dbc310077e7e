import { expect, test } from 'vitest';
import { HEADER_ONLY, type Tagging } from '../../src/journal/tag.ts';
import { workerSettings } from '../../src/worker/settings.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { fetchBody, journalBench } from '../support/journal-bench.ts';

const bench = journalBench();
const BODY: Tagging = { ...HEADER_ONLY, body: true };
const LITELLM = 'x-litellm-spend-logs-metadata';

/** What the provider gets of one request, and what the journal has of it. */
async function sent(tagging: Tagging, body: string, headers: Record<string, string> = {}) {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ tagging });
  await worker.attempt(batch, async (task) => (await fetchBody(task, body, { headers })).status);
  const { rows } = await bench.db.pool.query<{ tag: string; request: Buffer; sha256: string }>(
    `SELECT tag, request, encode(request_sha256, 'hex') AS sha256 FROM madrugada.call_intent WHERE batch_key = $1`,
    [batch],
  );
  const [row] = rows;
  const exchange = bench.provider.exchanges.at(-1);
  if (row === undefined || exchange === undefined) throw new Error('nothing was sent');
  return { ...row, journaled: row.request.toString(), headers: exchange.headers, body: exchange.body.toString() };
}

test('headers named by setting carry the tag that the journal has, whatever the agent set there', async () => {
  const { tag, headers } = await sent(
    { ...HEADER_ONLY, headers: ['x-request-tag'] },
    '{"model":"claude-haiku-4-5","max_tokens":9}',
    {
      'x-request-tag': 'of the agent',
      'x-madrugada-tag': 'forged',
    },
  );
  expect(headers).toMatchObject({ 'x-madrugada-tag': tag, 'x-request-tag': tag });
});

test('LiteLLM’s header carries the tag by setting, and otherwise is not sent', async () => {
  const { tag, headers } = await sent({ ...HEADER_ONLY, litellm: true }, '{"model":"claude-haiku-4-5","max_tokens":9}');
  expect(JSON.parse(String(headers[LITELLM]))).toEqual({ madrugada_tag: tag });
  expect((await sent(HEADER_ONLY, '{"model":"claude-haiku-4-5","max_tokens":9}')).headers[LITELLM]).toBeUndefined();
});

test('LiteLLM’s header of the agent stays as it is', async () => {
  const { headers } = await sent({ ...HEADER_ONLY, litellm: true }, '{"model":"claude-haiku-4-5","max_tokens":9}', {
    [LITELLM]: '{"team":"a"}',
  });
  expect(headers[LITELLM]).toBe('{"team":"a"}');
});

test('the body carries the tag as metadata.user_id, and is else sent byte for byte', async () => {
  const { tag, body, journaled } = await sent(
    BODY,
    ' {"model":"claude-haiku-4-5","max_tokens":9, "seed": 12345678901234567890.10}',
  );
  expect(body).toBe(
    ` {"metadata":{"user_id":"${tag}"},"model":"claude-haiku-4-5","max_tokens":9, "seed": 12345678901234567890.10}`,
  );
  expect(journaled).toBe(' {"model":"claude-haiku-4-5","max_tokens":9, "seed": 12345678901234567890.10}');
});

test('a tagged body does not change what the request is: it replays with the tag switched on or off', async () => {
  const on = await sent(BODY, '{"model":"claude-haiku-4-5","max_tokens":9}');
  const off = await sent(HEADER_ONLY, '{"model":"claude-haiku-4-5","max_tokens":9}');
  expect(on.sha256).toBe(off.sha256);
  expect(off.body).toBe('{"model":"claude-haiku-4-5","max_tokens":9}');
});

test.each([
  '{"metadata":{"user_id":"u"},"model":"claude-haiku-4-5","max_tokens":9}',
  '{"metadata":{},"model":"claude-haiku-4-5","max_tokens":9}',
])('the body %s is sent as it is', async (body) => {
  expect((await sent(BODY, body)).body).toBe(body);
});

const settings = (environment: Record<string, string>) =>
  workerSettings({ ANTHROPIC_API_KEY: 'dummy', ...environment });

test('the settings say what carries the tag', () => {
  expect(settings({}).tagging).toEqual(HEADER_ONLY);
  expect(
    settings({ MADRUGADA_TAG_HEADERS: 'X-Request-Tag, x-b', MADRUGADA_TAG_LITELLM: '1', MADRUGADA_TAG_BODY: '1' })
      .tagging,
  ).toEqual({ headers: ['x-request-tag', 'x-b'], litellm: true, body: true });
});

test.each(['authorization', 'Content-Length', 'a header'])('%s cannot carry the tag', (name) => {
  expect(() => settings({ MADRUGADA_TAG_HEADERS: name })).toThrow(/cannot carry a tag; name headers/);
});

import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { dispatchesOf, kindsOf, loadTestBatch } from '../support/attempts.ts';
import { countBody, fetchMessage, journalBench, question } from '../support/journal-bench.ts';
import { messageOf } from '../support/scripted-provider.ts';

const bench = journalBench();

async function storedBodies(batch: string): Promise<{ request: Buffer; response: Buffer }> {
  const { rows } = await bench.db.pool.query<{ request: Buffer; response: Buffer }>(
    'SELECT request, response FROM madrugada.call_intent JOIN madrugada.call_outcome USING (batch_key, task_id, seq, dispatch) WHERE batch_key = $1',
    [batch],
  );
  const [row] = rows;
  if (row === undefined) throw new Error('nothing is recorded');
  return row;
}

const bodies: [string, Buffer<ArrayBuffer>][] = [
  ['ten megabytes of random bytes', randomBytes(10_000_000)],
  ['a megabyte of JSON', Buffer.from(JSON.stringify(question('é'.repeat(500_000))))],
  ['NUL characters', Buffer.from('{"text":"a\\u0000b","raw":"\0"}')],
  ['invalid JSON', Buffer.from('{"a": 1,, }')],
  ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0xfe, 0x00, 0x80])],
  ['numbers that no double holds', Buffer.from('{ "n":1.000000000000000000001, "m" :1e999 }')],
  ['something compressed', Buffer.from(gzipSync('{"a":1}'))],
  ['an empty answer', Buffer.alloc(0)],
];

for (const [what, body] of bodies)
  test(`a request and its answer of ${what} are sent, recorded and replayed byte for byte`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add();
    bench.provider.script = (exchange) => exchange.respond(200, body, { 'content-type': 'application/json' });
    const received: Buffer[] = [];
    const run = async (task: Task) => {
      const response = await countBody(task, body, { headers: { 'content-type': 'application/json' } });
      received.push(Buffer.from(await response.arrayBuffer()));
      if (received.length === 1) throw new Error('the program breaks here');
    };
    await worker.attempt(batch, run);
    const second = await worker.attempt(batch, run);

    expect(second.ending).toBe('completed');
    expect(bench.provider.requestCount).toBe(1);
    const stored = await storedBodies(batch);
    const copies = [bench.provider.exchanges[0]?.body, stored.request, stored.response, ...received];
    expect(copies.map((copy) => copy && Buffer.compare(copy, body))).toEqual([0, 0, 0, 0, 0]);
  });

/** Records one answer of the provider and says what became of it. */
async function recordAnswer(answer: object): Promise<string[]> {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) =>
    exchange.respond(200, JSON.stringify(answer), { 'content-type': 'application/json' });
  await worker.attempt(batch, async (task) => (await fetchMessage(task, 'one')).status);
  return kindsOf(bench.db, batch);
}

test('a charged answer whose id holds a NUL character is recorded all the same', async () => {
  expect(await recordAnswer({ ...messageOf(1, 'x'), id: 'msg\0' })).toEqual(['1.1 charged']);
});

test('a charged answer whose model’s name holds a NUL character is recorded all the same', async () => {
  expect(await recordAnswer({ ...messageOf(1, 'x'), model: 'claude\0' })).toEqual(['1.1 charged']);
});

test('a charged answer with absurd token counts is recorded all the same', async () => {
  expect(await recordAnswer({ ...messageOf(1, 'x'), usage: { input_tokens: 1e300, output_tokens: -5 } })).toEqual([
    '1.1 charged',
  ]);
});

test('a refusal whose message holds a NUL character is recorded, and still a refusal', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  bench.provider.script = (exchange) => exchange.refuse(429, 'rate_limit_error', {}, 'slow\0down');
  await worker.attempt(batch, async (task) => (await fetchMessage(task, 'one')).status);

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused']);
  expect((await dispatchesOf(bench.db, batch))[0]?.error).toMatch(/slow.?down/);
});

test('a request that names a model with a NUL character is sent and recorded', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => (await countBody(task, JSON.stringify({ model: 'a\0b' }))).status);

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('secrets of the request are sent and not recorded', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const headers = { authorization: 'Bearer secret-1', 'x-api-key': 'secret-2' };
  await worker.attempt(batch, async (task) => (await fetchMessage(task, 'one', { headers })).status);

  expect(bench.provider.exchanges[0]?.headers).toMatchObject(headers);
  const { rows } = await bench.db.pool.query(
    `SELECT FROM madrugada.call_intent i JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch)
      WHERE batch_key = $1 AND (i::text || o::text) LIKE '%secret-%'`,
    [batch],
  );
  expect(rows.length).toBe(0);
});

test('a cookie that the provider sets is not recorded', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) =>
    exchange.respond(200, JSON.stringify(messageOf(1, 'x')), { 'set-cookie': 'session=secret' });
  await worker.attempt(batch, async (task) => (await fetchMessage(task, 'one')).status);
  const { rows } = await bench.db.pool.query(
    'SELECT response_headers FROM madrugada.call_outcome WHERE batch_key = $1',
    [batch],
  );

  expect(rows).toEqual([{ response_headers: { 'request-id': 'req_1' } }]);
});

test('no word of the task reaches the provider in its tag', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(batch, async (task) => (await fetchMessage(task, 'one')).status);

  expect(bench.provider.exchanges[0]?.headers['x-madrugada-tag']).toMatch(/^[0-9a-f]{32}$/);
});

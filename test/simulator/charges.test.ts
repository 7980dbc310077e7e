import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { appendFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import type Anthropic from '@anthropic-ai/sdk';
import Big from 'big.js';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { until } from '../support/until.ts';
import { ask, type ForkedSimulator, forkSimulator, runToExit, temporaryFolder, wish } from './forked-simulator.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let simulator: ForkedSimulator;

beforeEach(async () => {
  folder = await temporaryFolder();
  simulator = await forkSimulator(join(folder.path, 'bill.jsonl'));
});

afterEach(async () => {
  await simulator.stop();
  await folder.remove();
});

test('seven opus and eighteen haiku answers cost exactly 0.41 dollars', async () => {
  const models = [...Array(7).fill('claude-opus-4-5'), ...Array(18).fill('claude-haiku-4-5')];
  await Promise.all(models.map((model, n) => simulator.client.messages.create(ask(`question ${n}`, model))));
  const lines = await simulator.billLines();
  expect(lines).toHaveLength(25);
  expect(lines.reduce((sum, line) => sum.plus(line.cost_usd), new Big(0)).toFixed()).toBe('0.41');
});

test('a bill line names the request, the message, the tag, the model, the usage and the body', async () => {
  const body = JSON.stringify(ask('hello', 'claude-opus-4-5'));
  const response = await fetch(`${simulator.url}/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': 'dummy', 'x-madrugada-tag': 'tag-1' },
    body,
  });
  const message: Anthropic.Message = JSON.parse(await response.text());
  const [line] = await simulator.billLines();
  expect(line).toEqual({
    provider_request_id: response.headers.get('request-id'),
    message_id: message.id,
    tag: 'tag-1',
    received_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    model: 'claude-opus-4-5',
    input_tokens: message.usage.input_tokens,
    output_tokens: message.usage.output_tokens,
    cost_usd: '0.0272',
    request_sha256: createHash('sha256').update(body).digest('hex'),
  });
  expect(response.headers.get('x-madrugada-tag')).toBeNull();
});

test('a dated snapshot costs what its model costs, and an unknown model what sonnet costs', async () => {
  await simulator.client.messages.create(ask('a', 'claude-haiku-4-5-20251001'));
  await simulator.client.messages.create(ask('b', 'some-other-model'));
  expect((await simulator.billLines()).map((line) => line.cost_usd)).toEqual(['0.0122', '0.01632']);
});

test('an answer never uses more output than its request asks for, nor is more charged', async () => {
  const messages = [{ role: 'user' as const, content: 'Hello. The sky over the bay is blue.\nWhat is blue?' }];
  const whole = await simulator.client.messages.create({ model: 'claude-haiku-4-5', max_tokens: 500, messages });
  const cut = await simulator.client.messages.create({ model: 'claude-haiku-4-5', max_tokens: 3, messages });
  const streamed = await simulator.client.messages
    .stream({ model: 'claude-haiku-4-5', max_tokens: 3, messages })
    .finalMessage();

  expect(whole).toMatchObject({ usage: { output_tokens: 500 }, stop_reason: 'end_turn' });
  expect(whole.content).toMatchObject([{ text: 'The sky over the bay is blue.' }]);
  for (const message of [cut, streamed]) {
    expect(message).toMatchObject({ usage: { output_tokens: 3 }, stop_reason: 'max_tokens' });
    expect(message.content).toMatchObject([{ text: 'The sky over' }]);
  }
  const lines = await simulator.billLines();
  expect(lines.map((line) => [line.output_tokens, line.cost_usd])).toEqual([
    [500, '0.0097'],
    [3, '0.007215'],
    [3, '0.007215'],
  ]);
});

test('the same request sent twice is charged twice, under two request ids', async () => {
  await Promise.all([simulator.client.messages.create(ask('again')), simulator.client.messages.create(ask('again'))]);
  const lines = await simulator.billLines();
  expect(new Set(lines.map((line) => line.request_sha256)).size).toBe(1);
  expect(new Set(lines.map((line) => line.provider_request_id)).size).toBe(2);
});

test('a client that hangs up before the answer is produced pays all the same', async () => {
  const headers = { 'x-api-key': 'dummy', 'x-simulate': 'latency=500' };
  const call = request(`${simulator.url}/v1/messages`, { method: 'POST', headers });
  const hungUpAt = new Promise<number>((resolve) => {
    call.on('error', () => resolve(Date.now()));
  });
  call.end(JSON.stringify(ask('hello')), () => call.destroy(new Error('enough waited')));
  const [line] = await simulator.billed(1);
  expect(Date.parse(line?.at ?? '')).toBeGreaterThan(await hungUpAt);
});

for (const stream of [false, true])
  test(`the bill has the line on disk before the client sees the first byte of an answer${stream ? ' that is streamed' : ''}`, async () => {
    const gate = join(folder.path, 'gate');
    const slow = await forkSimulator(join(folder.path, 'slow.jsonl'), [], { slowDisk: gate });
    onTestFinished(async () => void (await slow.stop('SIGKILL')));
    await writeFile(gate, '');
    let hasBegun = false;
    const answer = fetch(`${slow.url}/v1/messages`, {
      method: 'POST',
      headers: { 'x-api-key': 'dummy', 'x-madrugada-tag': 'slow' },
      body: JSON.stringify({ ...ask('hello'), stream }),
    }).then((response) => {
      hasBegun = true;
      return response.text();
    });
    await until('the line waits for the disk', () => existsSync(`${gate}.reached`));
    const headers = { 'x-api-key': 'dummy' };
    const meanwhile = await fetch(`${slow.url}/v1/dispatches/slow`, { headers }); // answered after all that was sent before
    const early = hasBegun;
    await rm(gate);

    expect(early).toBe(false);
    expect(Object.fromEntries(meanwhile.headers)).toMatchObject({
      'x-dispatch-state': 'in-progress',
      'retry-after': '1',
    });
    expect(await answer).toContain('msg_');
    expect(await slow.billLines()).toHaveLength(1);
  });

test.skipIf(!existsSync('/dev/full'))('an answer whose charge cannot be written is not sent', async () => {
  const broken = await forkSimulator('/dev/full');
  onTestFinished(async () => void (await broken.stop('SIGKILL')));
  const tagged = { headers: { 'x-madrugada-tag': 'unwritten' } };
  await expect(broken.client.messages.create(ask('hello'), tagged)).rejects.toMatchObject({ status: 500 });
  const found = await fetch(`${broken.url}/v1/dispatches/unwritten`, { headers: { 'x-api-key': 'dummy' } });
  expect([found.status, found.headers.get('x-dispatch-state')]).toEqual([404, null]); // half a line may be on the bill
});

test('a simulator started again adds to its bill, without the half line a kill has left', async () => {
  await simulator.client.messages.create(ask('first'));
  await simulator.stop('SIGKILL');
  await appendFile(simulator.billPath, '{"provider_request_id":"req_half');
  simulator = await forkSimulator(simulator.billPath);
  await simulator.client.messages.create(ask('second'));
  expect(await simulator.billLines()).toHaveLength(2);
});

test('SIGTERM ends it with exit code 0, abandoning unproduced answers without a charge', async () => {
  const charged = simulator.client.messages.create(ask('stalled'), wish('stall-headers'));
  const unproduced = simulator.client.messages.create(ask('slow'), wish('latency=600000'));
  const outcomes = Promise.allSettled([charged, unproduced]);
  await simulator.billed(1);
  expect(await simulator.stop('SIGTERM')).toBe(0);
  expect((await outcomes).map((outcome) => outcome.status)).toEqual(['rejected', 'rejected']);
  expect(await simulator.billLines()).toHaveLength(1);
});

test('a taken port is refused with exit code 2 and the way out', async () => {
  const { port } = new URL(simulator.url);
  const { code, stderr } = await runToExit(['--port', port, '--bill', join(folder.path, 'other.jsonl')]);
  expect(code).toBe(2);
  expect(stderr).toContain(`port ${port} cannot be used`);
});

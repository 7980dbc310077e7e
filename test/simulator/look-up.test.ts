import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DispatchRecords, type DispatchResult } from '../../src/simulator/dispatch-records.ts';
import { ask, type ForkedSimulator, forkSimulator, temporaryFolder } from './forked-simulator.ts';

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

function send(tag: string, simulate = '', stream = false): Promise<Response> {
  const headers = { 'x-api-key': 'dummy', 'x-madrugada-tag': tag, 'x-simulate': simulate };
  return fetch(`${simulator.url}/v1/messages`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ ...ask('hello'), stream }),
  });
}

function lookUp(tag: string): Promise<Response> {
  return fetch(`${simulator.url}/v1/dispatches/${encodeURIComponent(tag)}`, { headers: { 'x-api-key': 'dummy' } });
}

test('an answer can be looked up as it was sent, with its request id and its cost', async () => {
  const sent = await send('tag/1');
  const found = await lookUp('tag/1');
  expect(found.status).toBe(200);
  expect(Object.fromEntries(found.headers)).toMatchObject({
    'x-dispatch-state': 'answered',
    'x-dispatch-status': '200',
    'x-dispatch-cost-usd': '0.0122',
    'request-id': sent.headers.get('request-id'),
    'content-type': 'application/json',
  });
  expect(await found.text()).toBe(await sent.text());
});

test.each(['charge-and-drop', 'cut-stream'])('a stream lost to %s is found whole', async (fault) => {
  await send('lost', fault, true).then(
    (response) => response.text().catch(() => ''),
    () => '',
  );
  const [line] = await simulator.billed(1);
  const found = await lookUp('lost');
  expect(found.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect(found.headers.get('request-id')).toBe(line?.provider_request_id);
  expect(await found.text()).toContain('event: message_stop');
});

test('a refusal is found with its status and costs nothing', async () => {
  const sent = await send('refused', 'refuse=529');
  const found = await lookUp('refused');
  expect(Object.fromEntries(found.headers)).toMatchObject({
    'x-dispatch-state': 'refused',
    'x-dispatch-status': '529',
    'x-dispatch-cost-usd': '0',
  });
  expect(await found.text()).toBe(await sent.text());
});

test('a dispatch that never arrived is revoked: coming later it is refused and not charged', async () => {
  expect((await lookUp('late')).headers.get('x-dispatch-state')).toBe('not-received');
  const late = await send('late');
  expect(late.status).toBe(409);
  expect(await late.json()).toMatchObject({ error: { type: 'dispatch_revoked' } });
  expect((await lookUp('late')).headers.get('x-dispatch-state')).toBe('not-received');
  expect(await simulator.billLines()).toEqual([]);
});

test('nothing is said of a charge from before a restart', async () => {
  await send('before');
  await simulator.stop('SIGKILL');
  simulator = await forkSimulator(simulator.billPath);
  const found = await lookUp('before');
  expect(found.status).toBe(404);
  expect(found.headers.get('x-dispatch-state')).toBeNull();
});

test('a look-up without a key is refused and revokes nothing', async () => {
  expect((await fetch(`${simulator.url}/v1/dispatches/keyless`)).status).toBe(401);
  expect((await send('keyless')).status).toBe(200);
});

function result(state: DispatchResult['state'], body: string): DispatchResult {
  const common = { contentType: 'application/json', requestId: 'req_1', body: Buffer.from(body) };
  return { state, status: state === 'answered' ? 200 : 529, costUsd: state === 'answered' ? '0.0122' : '0', ...common };
}

test('a dispatch that has arrived and is not answered is in progress', () => {
  const records = new DispatchRecords();
  expect(records.arrive('a')).toBe(true);
  expect(records.lookUp('a')).toBe('in-progress');
});

test('the oldest bodies go first, and of their dispatches nothing is said', () => {
  const records = new DispatchRecords([], 10);
  for (const tag of ['a', 'b', 'c']) {
    records.arrive(tag);
    records.finish(tag, result('answered', '12345'));
  }
  expect(records.lookUp('a')).toBe('forgotten');
  expect(records.lookUp('b')).toMatchObject({ state: 'answered' });
});

test('a tag that was refused and comes again is in progress, and found with its later answer', () => {
  const records = new DispatchRecords([], 10);
  records.arrive('a');
  records.finish('a', result('refused', '12345'));
  expect([records.arrive('a'), records.lookUp('a')]).toEqual([true, 'in-progress']);
  records.finish('a', result('answered', '1234567890')); // of the refusal nothing is kept that would take its place
  expect(records.lookUp('a')).toMatchObject({ state: 'answered' });
});

test('a tag that comes again and is refused is still found charged', () => {
  const records = new DispatchRecords();
  records.arrive('a');
  records.finish('a', result('answered', 'first'));
  records.arrive('a');
  records.finish('a', result('refused', 'second'));
  expect(records.lookUp('a')).toMatchObject({ state: 'answered' });
});

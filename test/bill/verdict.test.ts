import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readProofs } from '../../src/bill/proofs.ts';
import { judgeBatch } from '../../src/bill/verdict.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { type BatchOptions, loadTestBatch, type TestWorker, TestWorkers } from '../support/attempts.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { HandMadeNight } from '../support/hand-made-night.ts';

const PAID = { kind: 'charged', usd: '0.0164' } as const;

let db: TestDatabase;
let client: Client;
let workers: TestWorkers;
let worker: TestWorker;

beforeAll(async () => {
  db = await createTestDatabase();
  client = await openClient({ url: db.url, as: 'auditor', applicationName: 'test verdict' });
  workers = new TestWorkers(db, 'http://127.0.0.1:9'); // no test sends anything
  worker = await workers.add();
});
afterAll(async () => {
  await workers.closeAll();
  await client.end();
  await db.drop();
});

/** A night of one task with two paid calls. */
async function paidNight(options?: BatchOptions): Promise<HandMadeNight> {
  const night = await HandMadeNight.begin(db, worker, options);
  await night.dispatch(1, 1, { ...PAID, requestId: 'req_1' });
  await night.dispatch(2, 1, { ...PAID, requestId: 'req_2' });
  return night;
}

/** The rows of one of the proofs, as objects. */
async function proof(night: HandMadeNight, name: string): Promise<Record<string, string | null>[]> {
  const found = (await readProofs(client, night.batch)).find(({ file }) => file.includes(name));
  if (found === undefined) throw new Error(`no proof ${name}`);
  return found.rows.map((row) =>
    Object.fromEntries(found.columns.map((column, index) => [column, row[index] ?? null])),
  );
}

async function problems({ batch }: HandMadeNight): Promise<string[]> {
  return (await judgeBatch(client, batch)).problems;
}

test('calls, charges and dollars are counted on both sides, to the last digit', async () => {
  const night = await paidNight({ tasks: 2 });
  await night.dispatch(3, 1, { kind: 'refused' });
  await night.dispatch(3, 2, { kind: 'charged', usd: '0.000000000000000001' });
  await night.dispatch(4, 1, { kind: 'not_sent' });
  await night.dispatch(5, 1, { kind: 'unknown' });
  await night.complete();
  await night.bill(
    { tag: night.tag(1), usd: '0.0164' },
    { tag: night.tag(2), usd: '0.0164' },
    { tag: night.tag(3, 2), usd: '0.000000000000000001' },
  );
  expect(await proof(night, '02-batch-totals')).toMatchObject([
    {
      ...{
        tasks: '2',
        completed: '1',
        failed: '0',
        calls: '3',
        charged: '3',
        refused: '1',
        not_sent: '1',
        in_doubt: '1',
      },
      ...{ journal_usd: '0.032800000000000001', bill_charges: '3', bill_usd: '0.032800000000000001', bills: '1' },
    },
  ]);
  expect(await proof(night, '03-task-charges')).toMatchObject([
    { item: '1', state: 'completed', attempts: '1', calls: '3', charged: '3', bill_charges: '3' },
    { item: '2', state: 'pending', attempts: '0', calls: '0', charged: '0', journal_usd: '0', bill_charges: null },
  ]);
});

test('unfinished and failed tasks are a problem', async () => {
  const batch = await loadTestBatch(db, { tasks: 3, maxAttempts: 1 });
  await worker.attempt(batch, () => {
    throw new Error('no document');
  });
  const { problems } = await judgeBatch(client, batch);
  expect(problems).toContain('2 of 3 tasks are not finished');
  expect(problems).toContain('1 of 3 tasks failed');
});

test('a second charge that the journal had named in doubt is a duplicate, but not an unnamed one', async () => {
  const night = await paidNight();
  await night.dispatch(3, 1, { kind: 'unknown' });
  await night.dispatch(3, 2, PAID);
  await night.complete();
  await night.bill(
    ...[night.tag(1), night.tag(2), night.tag(3), night.tag(3, 2)].map((tag) => ({ tag, usd: '0.0164' })),
  );
  expect(await proof(night, '01-duplicate-charges')).toMatchObject([
    { seq: '3', charges: '2', paid_twice_usd: '0.0164', dispatches: '{1,2}', named_in_doubt: 't' },
  ]);
  expect(await problems(night)).toContainEqual(
    expect.stringContaining('1 calls were charged more than once, 0 of them'),
  );
  expect(await proof(night, '05-in-doubt')).toMatchObject([{ seq: '3', dispatch: '1', billed: 't' }]);
});

test('a second charge of a dispatch that the journal holds for refused was not named', async () => {
  const night = await paidNight();
  await night.dispatch(3, 1, { kind: 'refused' });
  await night.dispatch(3, 2, PAID);
  await night.complete();
  await night.bill(
    ...[night.tag(1), night.tag(2), night.tag(3), night.tag(3, 2)].map((tag) => ({ tag, usd: '0.0164' })),
  );
  expect(await problems(night)).toContainEqual(
    expect.stringContaining('1 calls were charged more than once, 1 of them'),
  );
  expect(await proof(night, '04-unmatched')).toMatchObject([
    { difference: 'charged, but refused or not sent by the journal', seq: '3', dispatch: '1' },
  ]);
});

test('two charges of one call that the journal itself has seen are a problem before any bill', async () => {
  const night = await paidNight();
  await night.dispatch(3, 1, { kind: 'unknown' });
  await night.dispatch(3, 2, PAID);
  await night.outcome(3, 1, PAID);
  await night.complete();
  expect(await problems(night)).toContain('the journal has 1 charges beyond the 3 calls they answer');
});

test('a recovered answer and its late original are one charge', async () => {
  const night = await paidNight();
  await night.dispatch(3, 1, { ...PAID, kind: 'recovered' });
  await night.outcome(3, 1, PAID);
  await night.complete();
  await night.bill(...[1, 2, 3].map((seq) => ({ tag: night.tag(seq), usd: '0.0164' })));
  expect(await problems(night)).toEqual([]);
});

test('every difference between journal and bill is named, though calls and dollars agree', async () => {
  const night = await paidNight();
  await night.dispatch(3, 1);
  await night.dispatch(4, 1, PAID);
  await night.complete();
  await night.bill(
    { tag: night.tag(1), usd: '0.0163' },
    { tag: night.tag(3), usd: '0.0164' },
    { tag: 'nobody', requestId: 'req_9', usd: '0.0165' },
  );
  expect(await proof(night, '02-batch-totals')).toMatchObject([
    { calls: '3', bill_charges: '3', journal_usd: '0.0492', bill_usd: '0.0492' },
  ]);
  const rows = await proof(night, '04-unmatched');
  expect(rows.map(({ difference, seq, line_no }) => [difference, seq, line_no])).toEqual([
    ['amount differs', '1', '1'],
    ['charged, but not in the journal', null, '3'],
    ['charged, but the journal has no answer: in doubt', '3', '2'],
    ['in the journal, but not on the bill', '2', null],
    ['in the journal, but not on the bill', '4', null],
  ]);
  expect(await problems(night)).toContain('journal and bill differ in 5 lines');
});

test('a line without a tag is matched by its request id', async () => {
  const night = await paidNight();
  await night.complete();
  await night.bill({ requestId: 'req_1', usd: '0.0164' }, { requestId: 'req_2', usd: '0.0164' });
  expect(await problems(night)).toEqual([]);
});

test('two lines that say nothing of themselves are two charges that nobody knows, not one duplicate', async () => {
  const night = await paidNight();
  await night.complete();
  await night.bill(
    ...[1, 2].map((seq) => ({ tag: night.tag(seq), usd: '0.0164' })),
    { usd: '0.0164' },
    { usd: '0.0164' },
  );
  expect(await problems(night)).toEqual(['journal and bill differ in 2 lines']);
});

test('the same charge on two bills is charged twice', async () => {
  const night = await paidNight();
  await night.complete();
  const lines = [1, 2].map((seq) => ({ tag: night.tag(seq), usd: '0.0164' }));
  await night.bill(...lines);
  await night.bill(...lines);
  expect(await problems(night)).toContainEqual(expect.stringContaining('2 calls were charged more than once'));
});

test('a charge of a model without a price is a problem: what was spent is not known', async () => {
  const night = await paidNight();
  await night.dispatch(3, 1, { kind: 'charged', usd: null });
  await night.complete();
  expect(await problems(night)).toContain('1 charges are of a model without a price here');
});

test('what is in doubt is counted, and no problem by itself', async () => {
  const night = await paidNight();
  await night.dispatch(3, 1);
  await night.dispatch(4, 1, { kind: 'unknown' });
  await night.complete();
  await night.bill(...[1, 2].map((seq) => ({ tag: night.tag(seq), usd: '0.0164' })));
  expect(await judgeBatch(client, night.batch)).toEqual({ problems: [], inDoubt: 2 });
});

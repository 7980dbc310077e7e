import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { listDoubts, settleDoubt, settleFromBill } from '../../src/bill/doubts.ts';
import { readProofs } from '../../src/bill/proofs.ts';
import { judgeBatch } from '../../src/bill/verdict.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { type TestWorker, TestWorkers } from '../support/attempts.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { HandMadeNight } from '../support/hand-made-night.ts';

const PAID = { kind: 'charged', usd: '0.0164' } as const;
const ANA = { by: 'ana', reason: 'bill of 30 November' };
const CHARGED = { verdict: 'charged', usd: '0.0164', payAgain: false } as const;
const NOT_CHARGED = { verdict: 'not_charged' } as const;

let db: TestDatabase;
let client: Client;
let workers: TestWorkers;
let worker: TestWorker;

beforeAll(async () => {
  db = await createTestDatabase();
  client = await openClient({ url: db.url, as: 'operator', applicationName: 'test doubts' });
  workers = new TestWorkers(db, 'http://127.0.0.1:9'); // no test sends anything
  worker = await workers.add();
});
afterAll(async () => {
  await workers.closeAll();
  await client.end();
  await db.drop();
});

/** A night whose first call broke off once and was then paid. */
async function nightInDoubt(): Promise<HandMadeNight> {
  const night = await HandMadeNight.begin(db, worker);
  await night.dispatch(1, 1, { kind: 'unknown' });
  await night.dispatch(1, 2, PAID);
  return night;
}

async function settledRows({ batch }: HandMadeNight) {
  const { rows } = await client.query(
    `SELECT seq, dispatch, verdict, cost_usd, pay_again, bill_id, reason, settled_by
       FROM madrugada.audit_settled_doubts WHERE batch_key = $1 ORDER BY seq, dispatch`,
    [batch],
  );
  return rows;
}

async function differences({ batch }: HandMadeNight) {
  const { rows } = await client.query<{ difference: string }>(
    'SELECT difference FROM madrugada.audit_unmatched WHERE batch_key = $1',
    [batch],
  );
  return rows.map(({ difference }) => difference);
}

const call = (night: HandMadeNight, seq = 1, dispatch?: number) => ({ task: night.task, seq, dispatch });

test('a settled dispatch is in doubt no more and is found among the settled, with who said so and why', async () => {
  const night = await nightInDoubt();
  expect(await settleDoubt(client, call(night), CHARGED, ANA)).toBe(1);

  expect(await listDoubts(client, night.batch)).toEqual([]);
  expect(await settledRows(night)).toEqual([
    {
      ...{ seq: 1, dispatch: 1, verdict: 'charged', cost_usd: '0.0164', pay_again: false, bill_id: null },
      ...{ reason: 'bill of 30 November', settled_by: 'ana' },
    },
  ]);
});

test('a settlement leaves a row in the audit trail', async () => {
  const night = await nightInDoubt();
  await settleDoubt(client, call(night), NOT_CHARGED, ANA);
  const { rows } = await client.query(
    `SELECT event, from_state, to_state, reason, by_name FROM madrugada.audit_event WHERE batch_key = $1 AND subject = 'doubt'`,
    [night.batch],
  );
  expect(rows).toEqual([
    {
      ...{ event: 'settled', from_state: 'in doubt', to_state: 'not charged', by_name: 'ana' },
      reason: 'call 1, dispatch 1: bill of 30 November',
    },
  ]);
});

test('a dispatch whose sender may still be at work is not settled', async () => {
  const night = await HandMadeNight.begin(db, worker);
  await night.dispatch(1, 1);
  await expect(settleDoubt(client, call(night), NOT_CHARGED, ANA)).rejects.toThrow(
    /dispatch 1 of call 1 .*may still be at work until \d{4}-.*nothing was changed/,
  );
  expect(await settledRows(night)).toEqual([]);
});

test('a dispatch whose sender has ended is settled', async () => {
  const sender = await workers.add();
  const night = await HandMadeNight.begin(db, sender);
  await night.dispatch(1, 1);
  await sender.leave();
  expect(await settleDoubt(client, call(night), NOT_CHARGED, ANA)).toBe(1);
});

test('a dispatch that the journal knows as charged is not settled', async () => {
  const night = await nightInDoubt();
  await expect(settleDoubt(client, call(night, 1, 2), NOT_CHARGED, ANA)).rejects.toThrow(
    'is not in doubt: the journal has it as charged',
  );
});

test('a dispatch is settled once', async () => {
  const night = await nightInDoubt();
  await settleDoubt(client, call(night), CHARGED, ANA);
  await expect(settleDoubt(client, call(night, 1, 1), NOT_CHARGED, ANA)).rejects.toThrow(
    'was settled already, as charged by ana',
  );
});

test('of several dispatches in doubt a person must say which', async () => {
  const night = await HandMadeNight.begin(db, worker);
  await night.dispatch(1, 1, { kind: 'unknown' });
  await night.dispatch(1, 2, { kind: 'unknown' });
  await expect(settleDoubt(client, call(night), NOT_CHARGED, ANA)).rejects.toThrow('--dispatch 1, --dispatch 2');
});

test('the database itself wants a name and a reason', async () => {
  const night = await nightInDoubt();
  await expect(settleDoubt(client, call(night), CHARGED, { by: 'ana', reason: '' })).rejects.toThrow(
    'needs a name and a reason',
  );
});

test('workers and auditors settle nothing', async () => {
  for (const role of ['worker', 'auditor'] as const) {
    const other = await openClient({ url: db.url, as: role, applicationName: 'test doubts' });
    await expect(
      other.query(`SELECT madrugada.settle_doubt('a:b', 1, 1, 1, 'not_charged', NULL, false, NULL)`),
    ).rejects.toThrow('permission denied');
    await other.end();
  }
});

test('not even the owner changes a settlement', async () => {
  const night = await nightInDoubt();
  await settleDoubt(client, call(night), CHARGED, ANA);
  await expect(
    db.pool.query('UPDATE madrugada.settlement SET cost_usd = 0 WHERE batch_key = $1', [night.batch]),
  ).rejects.toThrow('append-only');
  await expect(db.pool.query('DELETE FROM madrugada.settlement WHERE batch_key = $1', [night.batch])).rejects.toThrow(
    'append-only',
  );
});

test('settled as charged, a dispatch meets its line of the bill, and the duplicate it explains stays named', async () => {
  const night = await nightInDoubt();
  await settleDoubt(client, call(night), CHARGED, ANA);
  await night.complete();
  await night.bill(...[1, 2].map((dispatch) => ({ tag: night.tag(1, dispatch), usd: '0.0164' })));

  expect(await differences(night)).toEqual([]);
  expect((await judgeBatch(client, night.batch)).problems).toContain(
    '1 calls were charged more than once, 0 of them without having been named in doubt',
  );
  const totals = (await readProofs(client, night.batch)).find(({ file }) => file.startsWith('02'));
  const row = Object.fromEntries(totals?.columns.map((name, index) => [name, totals.rows[0]?.[index]]) ?? []);
  expect(row).toMatchObject({ calls: '1', charged: '2', in_doubt: '0', journal_usd: '0.0328', bill_usd: '0.0328' });
});

test('settled as not charged, a dispatch that the bill charges is a difference, and its duplicate stays named', async () => {
  const night = await nightInDoubt();
  await settleDoubt(client, call(night), NOT_CHARGED, ANA);
  await night.bill(...[1, 2].map((dispatch) => ({ tag: night.tag(1, dispatch), usd: '0.0164' })));

  expect(await differences(night)).toEqual(['charged, but settled as not charged']);
  expect((await judgeBatch(client, night.batch)).problems).toContain(
    '1 calls were charged more than once, 0 of them without having been named in doubt',
  );
});

test('settled at another amount than the bill’s, or as charged what the bill does not have, is a difference', async () => {
  const night = await nightInDoubt();
  await night.dispatch(2, 1, { kind: 'unknown' });
  await settleDoubt(client, call(night), { ...CHARGED, usd: '0.0165' }, ANA);
  await settleDoubt(client, call(night, 2), CHARGED, ANA);
  await night.bill(...[1, 2].map((dispatch) => ({ tag: night.tag(1, dispatch), usd: '0.0164' })));

  expect((await differences(night)).sort()).toEqual(['amount differs', 'settled as charged, but not on the bill']);
});

test('an outcome that comes after the settlement counts instead of it', async () => {
  const night = await HandMadeNight.begin(db, worker);
  await night.dispatch(1, 1, { kind: 'unknown' });
  await settleDoubt(client, call(night), { ...CHARGED, usd: '0.5' }, ANA);
  await night.outcome(1, 1, PAID);
  await night.complete();
  await night.bill({ tag: night.tag(1), usd: '0.0164' });

  expect((await judgeBatch(client, night.batch)).problems).toEqual([]);
});

test('a bill settles what it charges at its amounts, and leaves the rest in doubt', async () => {
  const night = await nightInDoubt();
  await night.dispatch(2, 1, { kind: 'unknown' });
  await night.bill({ tag: night.tag(1), usd: '0.0171' }, { tag: night.tag(1, 2), usd: '0.0164' });

  expect(await settleFromBill(client, night.batch, false, ANA)).toMatchObject({ charged: 1, notCharged: 0, left: 1 });
  expect(await settledRows(night)).toMatchObject([
    { seq: 1, dispatch: 1, verdict: 'charged', cost_usd: '0.0171', bill_id: expect.any(Number) },
  ]);
  expect(await listDoubts(client, night.batch)).toMatchObject([{ seq: 2, onBill: false }]);
});

test('a complete bill settles what it does not have as not charged, save what may still be under way', async () => {
  const night = await nightInDoubt();
  await night.dispatch(2, 1, { kind: 'unknown' });
  await night.dispatch(3, 1);
  await night.bill({ tag: night.tag(1), usd: '0.0164' }, { tag: night.tag(1, 2), usd: '0.0164' });

  expect(await settleFromBill(client, night.batch, true, ANA)).toMatchObject({ charged: 1, notCharged: 1, left: 1 });
  expect(await settledRows(night)).toMatchObject([
    { seq: 1, verdict: 'charged' },
    { seq: 2, verdict: 'not_charged', cost_usd: null },
  ]);
  expect(await listDoubts(client, night.batch)).toMatchObject([{ seq: 3, senderAtWork: true }]);
});

test('without a bill nothing is settled by it', async () => {
  const night = await nightInDoubt();
  await expect(settleFromBill(client, night.batch, true, ANA)).rejects.toThrow('no bill is imported');
});

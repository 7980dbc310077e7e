import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { settleDoubt } from '../../src/bill/doubts.ts';
import { exposureSentence, readExposure } from '../../src/bill/exposure.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { type TestWorker, TestWorkers } from '../support/attempts.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { HandMadeNight } from '../support/hand-made-night.ts';

const PAID = { kind: 'charged', usd: '0.0164' } as const;
const UNKNOWN = { kind: 'unknown' } as const;

let db: TestDatabase;
let client: Client;
let workers: TestWorkers;
let worker: TestWorker;

beforeAll(async () => {
  db = await createTestDatabase();
  client = await openClient({ url: db.url, as: 'operator', applicationName: 'test exposure' });
  workers = new TestWorkers(db, 'http://127.0.0.1:9'); // no test sends anything
  worker = await workers.add();
});
afterAll(async () => {
  await workers.closeAll();
  await client.end();
  await db.drop();
});

async function pricedNight(): Promise<HandMadeNight> {
  const night = await HandMadeNight.begin(db, worker);
  night.worstCaseUsd = '0.25';
  return night;
}

test('a night without doubts exposes nothing', async () => {
  const night = await pricedNight();
  await night.dispatch(1, 1, PAID);
  const exposure = await readExposure(client, night.batch);
  expect(exposure).toEqual({ calls: 0, dispatches: 0, usd: '0', unbounded: 0 });
  expect(exposureSentence(exposure)).toBe('nothing in doubt could have been paid twice');
});

test('a call that was sent once has not been paid twice, whatever became of it', async () => {
  const night = await pricedNight();
  await night.dispatch(1, 1, UNKNOWN);
  expect(await readExposure(client, night.batch)).toMatchObject({ dispatches: 0 });
});

test('a doubt beside an answer counts at its worst case', async () => {
  const night = await pricedNight();
  await night.dispatch(1, 1, UNKNOWN);
  await night.dispatch(1, 2, UNKNOWN);
  await night.dispatch(1, 3, PAID);
  await night.dispatch(2, 1, UNKNOWN);
  await night.dispatch(2, 2, PAID);
  const exposure = await readExposure(client, night.batch);
  expect(exposure).toEqual({ calls: 2, dispatches: 3, usd: '0.75', unbounded: 0 });
  expect(exposureSentence(exposure)).toBe(
    'at most US$ 0.75 could have been paid twice: 2 calls, by 3 dispatches in doubt',
  );
});

test('of several doubts without an answer the cheapest may be the one charge owed', async () => {
  const night = await pricedNight();
  await night.dispatch(1, 1, UNKNOWN);
  night.worstCaseUsd = '0.75';
  await night.dispatch(1, 2, UNKNOWN);
  expect(await readExposure(client, night.batch)).toEqual({ calls: 1, dispatches: 1, usd: '0.75', unbounded: 0 });
});

test('a doubt without a price is said to have no bound', async () => {
  const night = await pricedNight();
  night.worstCaseUsd = null;
  await night.dispatch(1, 1, UNKNOWN);
  await night.dispatch(1, 2, PAID);
  const exposure = await readExposure(client, night.batch);
  expect(exposure).toEqual({ calls: 1, dispatches: 1, usd: '0', unbounded: 1 });
  expect(exposureSentence(exposure)).toBe(
    'at most US$ 0 could have been paid twice, and the price of 1 dispatch that has no bound: 1 call, by 1 dispatch in doubt',
  );
});

test('a settled doubt exposes nothing more', async () => {
  const night = await pricedNight();
  await night.dispatch(1, 1, UNKNOWN);
  await night.dispatch(1, 2, PAID);
  const settling = { verdict: 'not_charged' } as const;
  await settleDoubt(client, { task: night.task, seq: 1 }, settling, { by: 'ana', reason: 'support says so' });
  expect(await readExposure(client, night.batch)).toMatchObject({ dispatches: 0, usd: '0' });
});

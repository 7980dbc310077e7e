import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { attestBill, readBillLines } from '../../src/bill/proof-allowed.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { TestWorkers } from '../support/attempts.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { HandMadeNight, type MadeLine } from '../support/hand-made-night.ts';

let db: TestDatabase;
let workers: TestWorkers;
beforeAll(async () => {
  db = await createTestDatabase();
  workers = new TestWorkers(db, 'http://127.0.0.1:9'); // nothing is sent
});
afterEach(() => db.pool.query('DELETE FROM madrugada.bill'));
afterAll(async () => {
  await workers.closeAll();
  await db.drop();
});

/** What is made of a bill with these lines. */
async function finding(...lines: MadeLine[]) {
  const night = await HandMadeNight.begin(db, await workers.add());
  await night.bill(...lines);
  return attest();
}

async function attest() {
  const client = await openClient({ url: db.url, as: 'auditor', applicationName: 'test proof' });
  try {
    return attestBill(await readBillLines(client));
  } finally {
    await client.end();
  }
}

const TAGGED = { tag: 'a', usd: '1' };
const NAMED = { requestId: 'req_1', usd: '1' };
const SUM = { usd: '120.5' };

test('a bill with a line and a tag for each call proves dispatch by dispatch', async () => {
  expect(await finding(TAGGED, { ...TAGGED, requestId: 'req_1' })).toMatchObject({
    level: 'ok',
    seen: expect.stringContaining('each with its tag: it proves dispatch by dispatch, those in doubt too (2 lines)'),
  });
});

test('a bill whose lines have no tag proves call by call, where the answer came', async () => {
  expect(await finding(TAGGED, NAMED)).toMatchObject({
    level: 'warn',
    seen: expect.stringContaining('a line per call, 1 of 2 without a tag: it proves call by call'),
    next: expect.stringContaining('MADRUGADA_TAG_HEADERS'),
  });
});

test('a bill whose lines name no call proves sums alone', async () => {
  expect(await finding(SUM, NAMED)).toMatchObject({
    level: 'warn',
    seen: expect.stringContaining(
      '1 of 2 lines name no call: an aggregated bill, which proves sums per model and time',
    ),
  });
});

test('without a bill the journal stands alone', async () => {
  expect(await attest()).toMatchObject({ level: 'warn', seen: expect.stringContaining('no bill is imported yet') });
  expect(await finding()).toMatchObject({ level: 'warn', seen: expect.stringContaining('have no lines') });
});

test('a bill that a longer one continues counts once', async () => {
  const night = await HandMadeNight.begin(db, await workers.add());
  await night.bill(SUM);
  await night.bill(TAGGED, TAGGED);
  await db.pool.query(
    'UPDATE madrugada.bill SET continues = (SELECT min(id) FROM madrugada.bill) WHERE line_count = 2',
  );
  expect(await attest()).toMatchObject({ level: 'ok', seen: expect.stringContaining('(2 lines)') });
});

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestWorker, TestWorkers } from '../support/attempts.ts';
import { type CommandResult, runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { HandMadeNight } from '../support/hand-made-night.ts';

const PERSON = ['--by', 'ana', '--reason', 'by the test'];

let db: TestDatabase;
let workers: TestWorkers;
let worker: TestWorker;
let environment: Record<string, string>;
const folder = mkdtempSync(join(tmpdir(), 'madrugada-doubt-'));

beforeAll(async () => {
  db = await createTestDatabase();
  workers = new TestWorkers(db, 'http://127.0.0.1:9'); // no test sends anything
  worker = await workers.add();
  environment = { DATABASE_URL: db.url, MADRUGADA_HOME: join(folder, 'home') };
});
afterAll(async () => {
  await workers.closeAll();
  await db.drop();
  rmSync(folder, { recursive: true });
});

const madrugada = (...args: string[]): Promise<CommandResult> => runCommand(args, { folder, environment });

const json = async (...args: string[]) => JSON.parse((await madrugada(...args, '--json')).stdout);

/** A night whose first call broke off and was then paid, and whose second call is under way. */
async function nightInDoubt(): Promise<HandMadeNight> {
  const night = await HandMadeNight.begin(db, worker);
  night.worstCaseUsd = '0.25';
  await night.dispatch(1, 1, { kind: 'unknown' });
  await night.dispatch(1, 2, { kind: 'charged', usd: '0.0164' });
  await night.dispatch(2, 1);
  return night;
}

test('the list names each dispatch in doubt, and what to do next as the bill comes', async () => {
  const night = await nightInDoubt();
  expect(await json('doubt', 'list', night.batch)).toEqual({
    doubts: [
      {
        ...{ batch_key: night.batch, task: night.task, seq: 1, dispatch: 1, model: null, worst_case_usd: '0.25' },
        ...{ sent_at: expect.any(String), waiting_until: expect.any(String), sender_at_work: false, on_bill: null },
        next: expect.stringContaining(`madrugada bill import ${night.batch} FILE`),
      },
      expect.objectContaining({ seq: 2, sender_at_work: true, next: expect.stringContaining('wait') }),
    ],
    exposure: { calls: 1, dispatches: 1, usd: '0.25', unbounded: 0 },
  });
  await night.bill({ tag: night.tag(1, 2), usd: '0.0164' });
  expect((await madrugada('doubt', 'list', night.batch)).stdout).toMatch(
    /not on it.*next: if the bill has every charge, madrugada doubt settle .* --from-bill --complete/s,
  );
  await night.bill({ tag: night.tag(1), usd: '0.0164' });
  expect((await madrugada('doubt', 'list', night.batch)).stdout).toMatch(
    /charged.*next: madrugada doubt settle .* --from-bill --by/s,
  );
});

test('a person settles one dispatch', async () => {
  const night = await nightInDoubt();
  expect(await json('doubt', 'settle', night.task, '1', '--charged', '0.0164', '--pay-again', ...PERSON)).toEqual({
    ...{ task: night.task, seq: 1, dispatch: 1, verdict: 'charged', cost_usd: '0.0164', pay_again: true },
  });
  expect(await madrugada('doubt', 'settle', night.task, '2', '--not-charged', ...PERSON)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('its sender may still be at work until'),
  });
});

test('a person settles a batch by its bill', async () => {
  const night = await nightInDoubt();
  await night.bill({ tag: night.tag(1), usd: '0.0171' });
  expect(await json('doubt', 'settle', night.batch, '--from-bill', '--complete', ...PERSON)).toEqual({
    ...{ batch: night.batch, bill: expect.any(Number), charged: 1, not_charged: 0, left: 1 },
  });
});

test.each([
  ['neither verdict', ['1'], 'either --charged USD or --not-charged'],
  ['both verdicts', ['1', '--charged', '1', '--not-charged'], 'either --charged USD or --not-charged'],
  ['no call', ['--not-charged'], 'say which call'],
  ['a call by name', ['one', '--not-charged'], '"one" is no call'],
  ['an amount that is none', ['1', '--charged', '1e3'], 'It must be dollars'],
  ['paying again what was not charged', ['1', '--not-charged', '--pay-again'], '--pay-again goes with --charged'],
  ['a call and a bill', ['1', '--from-bill'], '--from-bill settles a whole batch'],
  ['a complete nothing', ['1', '--not-charged', '--complete'], '--complete goes with --from-bill'],
  ['no such task', ['1', '--not-charged'], 'no task a:b:c'],
])('%s: exit 2, and what is wrong', async (_, args, problem) => {
  expect(await madrugada('doubt', 'settle', 'a:b:c', ...args, ...PERSON)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(problem),
  });
});

test('audit, status, batch show and doubt list say in one sentence what could have been paid twice', async () => {
  const night = await nightInDoubt();
  const sentence = 'at most US$ 0.25 could have been paid twice: 1 call, by 1 dispatch in doubt';
  for (const command of [
    ['audit', night.batch],
    ['status', night.batch],
    ['batch', 'show', night.batch],
    ['doubt', 'list', night.batch],
  ])
    expect((await madrugada(...command)).stdout).toContain(sentence);
  const exposure = { calls: 1, dispatches: 1, usd: '0.25', unbounded: 0 };
  expect(await json('audit', night.batch)).toMatchObject({ exposure });
  expect(await json('status', night.batch)).toMatchObject({ batches: [{ exposure }] });
  expect(await json('batch', 'show', night.batch)).toMatchObject({ exposure });
  expect(await json('doubt', 'list', night.batch)).toMatchObject({ exposure });
});

test('a night concludes with what could have been paid twice', async () => {
  const load = await runCommand(['batch', 'load', 'concluded', '-', '--version', 'v1'], {
    ...{ folder, environment, input: '{"item": "1", "question": "a"}\n' },
  });
  expect(load.code).toBe(0);
  expect(await json('run', 'concluded', '--simulate', '--workers', '1')).toMatchObject({
    exposure: { calls: 0, dispatches: 0, usd: '0', unbounded: 0 },
  });
});

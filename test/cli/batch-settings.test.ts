import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let db: TestDatabase;
const folder = mkdtempSync(join(tmpdir(), 'madrugada-settings-'));

beforeAll(async () => {
  db = await createTestDatabase();
  writeFileSync(join(folder, 'questions.csv'), 'item,question\n1,Quem licencia?\n');
});
afterAll(async () => {
  await db.drop();
  rmSync(folder, { recursive: true });
});

const madrugada = (...args: string[]) =>
  runCommand(args, { folder, environment: { DATABASE_URL: db.url, MADRUGADA_HOME: join(folder, 'home') } });
const load = (id: string, ...flags: string[]) =>
  madrugada('batch', 'load', id, 'questions.csv', '--version', 'v1', ...flags);

test('a fall-back model is kept with its batch, shown, and found in the audit trail with who set it', async () => {
  const loaded = await load('a', '--fall-back', 'claude-opus-4-6', '--fall-back-after', '3', '--by', 'ana');
  const shown = await madrugada('batch', 'show', 'a');
  const document = JSON.parse((await madrugada('batch', 'show', 'a', '--json')).stdout);
  const { rows } = await db.pool.query(
    `SELECT event, reason, by_name FROM madrugada.audit_event WHERE batch_key = 'a:v1' AND event = 'fall-back set'`,
  );

  expect(loaded.code).toBe(0);
  expect(shown.stdout).toContain('a call refused 3 times asks claude-opus-4-6');
  expect(document).toMatchObject({ fall_back_model: 'claude-opus-4-6', fall_back_after: 3 });
  expect(rows).toEqual([
    { event: 'fall-back set', reason: 'claude-opus-4-6 after 3 refusals of a call', by_name: 'ana' },
  ]);
});

test.each([
  ['without a number of refusals', ['--fall-back', 'claude-opus-4-6'], '--fall-back-after N'],
  ['without a model', ['--fall-back-after', '2'], '--fall-back MODEL'],
  ['after no refusal', ['--fall-back', 'claude-opus-4-6', '--fall-back-after', '0'], 'whole number from 1 on'],
  ['to a model without a price', ['--fall-back', 'brand-new', '--fall-back-after', '2'], 'madrugada price load'],
])('a fall-back %s is refused, and nothing is loaded', async (_, flags, message) => {
  expect(await load('wrong', ...flags)).toMatchObject({ code: 2, stderr: expect.stringContaining(message) });
  expect((await madrugada('batch', 'show', 'wrong')).stderr).toContain('no batch wrong');
});

test('after how many failures in a row a batch stops is said at load, and shown', async () => {
  await load('b', '--stop-after-failures', '4');
  await load('c');

  expect((await madrugada('batch', 'show', 'b')).stdout).toContain('stops after 4 failed attempts in a row');
  expect(JSON.parse((await madrugada('batch', 'show', 'b', '--json')).stdout)).toMatchObject({
    stop_after_failures: 4,
    fall_back_model: null,
  });
  expect((await madrugada('batch', 'show', 'c')).stdout).toContain('stops after 10 failed attempts in a row');
  expect(await load('c', '--stop-after-failures', '0')).toMatchObject({ code: 2 });
});

test('a list loaded again with other settings keeps those it has, and says so', async () => {
  await load('d', '--fall-back', 'claude-opus-4-6', '--fall-back-after', '3', '--stop-after-failures', '4');
  const { stdout, code } = await load('d', '--fall-back', 'claude-opus-4-5', '--fall-back-after', '2');

  expect(code).toBe(0);
  expect(stdout).toContain('it keeps fall-back claude-opus-4-6, not claude-opus-4-5');
  expect(stdout).toContain('it keeps fall-back-after 3, not 2');
  expect(stdout).toContain('it keeps stop-after-failures 4, not 10');
});

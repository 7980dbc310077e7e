import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let db: TestDatabase;
const folder = mkdtempSync(join(tmpdir(), 'madrugada-cli-'));

beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(async () => {
  await db.drop();
  rmSync(folder, { recursive: true });
});

const madrugada = (...args: string[]) =>
  runCommand(args, { folder, environment: { DATABASE_URL: db.url, MADRUGADA_HOME: join(folder, 'home') } });

const QUESTIONS = 'item,question\n1,Quem licencia?\n2,=1+1\n3,Quem fiscaliza?\n';

describe('a small night through the commands', () => {
  test('is loaded, run, billed, proven and exported', async () => {
    writeFileSync(join(folder, 'questions.csv'), QUESTIONS);
    expect(await madrugada('batch', 'load', 'small', 'questions.csv', '--version', 'v1', '--json')).toMatchObject({
      code: 0,
    });
    const early = await madrugada('audit', 'small');
    expect(early.code).toBe(1);
    expect(early.stdout).toContain('no bill is imported');

    const bill = join(folder, 'bill.jsonl');
    const run = await madrugada('run', 'small', '--simulate', '--workers', '2', '--bill', bill, '--json');
    expect(JSON.parse(run.stdout)).toMatchObject({ batch: 'small:v1', completed: 3, failed: 0, calls: 3 });
    expect(run.code).toBe(0);
    expect((await madrugada('bill', 'import', 'small', bill)).code).toBe(0);
    const audit = await madrugada('audit', 'small', '--json');
    expect(JSON.parse(audit.stdout)).toMatchObject({ ok: true, problems: [], in_doubt: 0 });
    expect(audit.code).toBe(0);

    const answers = await madrugada('answers', 'small', '--format', 'csv');
    expect(answers.stdout.split('\n').map((line) => line.split(',')[0])).toEqual(['item', '1', '2', '3', '']);
    const shown = await madrugada('task', 'show', 'small:2:v1');
    expect(shown.stdout).toMatch(/charged, answers/);
    expect((await madrugada('status', 'small')).stdout).toContain('3 of 3 tasks completed');
  });

  test('a task that a person wants again must have failed', async () => {
    const retry = await madrugada('retry', 'small:1:v1', '--by', 'ana', '--reason', 'again');
    expect(retry).toMatchObject({ code: 2, stderr: expect.stringContaining('only a failed task') });
  });
});

test('an answer that a spreadsheet would run is neutralised', async () => {
  writeFileSync(join(folder, 'formula.csv'), 'item,question\n"=cmd","<question>x</question>"\n');
  await madrugada('batch', 'load', 'formula', 'formula.csv', '--version', 'v1');
  await madrugada('run', 'formula', '--simulate', '--workers', '1');
  const { stdout } = await madrugada('answers', 'formula', '--format', 'csv');
  expect(stdout.split('\n')[1]).toMatch(/^'=cmd/);
});

test('a stopped batch does not run until a person opens it again', async () => {
  writeFileSync(join(folder, 'questions.csv'), QUESTIONS);
  await madrugada('batch', 'load', 'stopped', 'questions.csv', '--version', 'v1');
  expect((await madrugada('batch', 'stop', 'stopped', '--reason', 'wrong list')).code).toBe(0);
  expect(await madrugada('run', 'stopped', '--simulate')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('wrong list'),
  });
  expect((await madrugada('batch', 'resume', 'stopped', '--by', 'ana', '--reason', 'right list')).code).toBe(0);
  const { rows } = await db.pool.query(
    `SELECT event, reason, by_name FROM madrugada.audit_event WHERE batch_key = 'stopped:v1' AND subject = 'batch' ORDER BY id`,
  );
  expect(rows).toEqual([
    { event: 'loaded', reason: null, by_name: null },
    { event: 'stopped', reason: 'wrong list', by_name: null },
    { event: 'reopened', reason: 'right list', by_name: 'ana' },
  ]);
});

describe('exit codes', () => {
  test.each([
    ['an unknown command', ['nonsense'], 'nonsense'],
    ['a missing flag', ['batch', 'load', 'x', 'questions.csv'], '--version'],
    ['an unknown batch', ['audit', 'nobody'], 'no batch nobody'],
    ['a file that is not there', ['batch', 'load', 'x', 'none.csv', '--version', 'v1'], 'none.csv'],
    [
      'an agent that is not there',
      ['batch', 'load', 'x', 'questions.csv', '--version', 'v1', '--agent', 'no.ts'],
      'no.ts',
    ],
    ['a task that is none', ['task', 'show', 'small'], 'BATCH:ITEM:VERSION'],
  ])('2: %s', async (_, args, message) => {
    const result = await madrugada(...args);
    expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining(message) });
    expect(result.stderr).not.toContain('    at ');
  });

  test('with --json an error is one document on stdout', async () => {
    const { stdout } = await madrugada('audit', 'nobody', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ error: { exit_code: 2, message: expect.stringContaining('nobody') } });
  });

  test('an ID with two versions asks which', async () => {
    for (const version of ['v1', 'v2']) await madrugada('batch', 'load', 'two', 'questions.csv', '--version', version);
    const { stderr } = await madrugada('batch', 'show', 'two');
    expect(stderr).toContain('two:v1, two:v2');
  });
});

test.each([
  ['batch load'],
  ['batch list'],
  ['batch show'],
  ['batch stop'],
  ['batch resume'],
  ['batch close'],
  ['run'],
  ['action list'],
  ['action show'],
  ['action approve'],
  ['action reject'],
  ['action settle'],
  ['worker'],
  ['status'],
  ['answers'],
  ['task show'],
  ['retry'],
  ['audit'],
  ['bill import'],
  ['rehearse night'],
  ['db start'],
  ['init'],
])('madrugada %s --help shows an example and --json', async (command) => {
  const { code, stdout } = await madrugada(...command.split(' '), '--help');
  expect(code).toBe(0);
  expect(stdout).toMatch(/Examples?:/);
  expect(stdout).toContain('--json');
});

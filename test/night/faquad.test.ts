import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { temporaryFolder } from '../simulator/forked-simulator.ts';
import { type CommandResult, runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const FAQUAD = join(packageRoot(), '..', 'shared', 'data', 'faquad');
const IS_THERE = existsSync(FAQUAD);
const COUNT = 40;

interface Question {
  item: string;
  question: string;
  document: string;
}

let db: TestDatabase;
let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let questions: Question[];
const done: Record<'load' | 'run' | 'bill' | 'audit' | 'answers', CommandResult> = Object.create(null);

beforeAll(async () => {
  if (!IS_THERE) return;
  db = await createTestDatabase();
  folder = await temporaryFolder();
  const split = await runCommand([folder.path], { script: join(FAQUAD, 'split.mjs') });
  expect([split.code, split.stderr]).toEqual([0, '']);
  const lines = readFileSync(join(folder.path, 'night-400.jsonl'), 'utf8').split('\n').slice(0, COUNT);
  questions = lines.map((line): Question => JSON.parse(line));
  writeFileSync(join(folder.path, 'night-40.jsonl'), `${lines.join('\n')}\n`);

  const documents = `documents=${join(folder.path, 'documents')}`;
  done.load = await madrugada('batch', 'load', 'faquad', 'night-40.jsonl', '--version', 'v1', '--option', documents);
  done.run = await madrugada(
    ...'run faquad --simulate --bill bill.jsonl --workers 2 --concurrency 4 --json'.split(' '),
  );
  done.bill = await madrugada('bill', 'import', 'faquad', 'bill.jsonl', '--json');
  done.audit = await madrugada('audit', 'faquad', '--json');
  done.answers = await madrugada('answers', 'faquad');
});
afterAll(async () => {
  await db?.drop();
  await folder?.remove();
});
beforeEach(({ skip }) =>
  skip(!IS_THERE, 'the questions of FaQuAD are not beside this repository: ../shared/data/faquad'),
);

/** A command as a person gives it, in the folder that holds the questions. */
function madrugada(...words: string[]): Promise<CommandResult> {
  return runCommand(words, {
    folder: folder.path,
    environment: { DATABASE_URL: db.url, MADRUGADA_HOME: join(folder.path, 'home') },
  });
}

test('the 40 questions go from the file to a proven bill without one command that fails', () => {
  for (const { code, stderr } of Object.values(done)) expect(code, stderr).toBe(0);
  expect(Object.keys(done)).toEqual(['load', 'run', 'bill', 'audit', 'answers']);
});

test('every question is completed, with one call each', () => {
  expect(JSON.parse(done.run.stdout)).toMatchObject({ total: COUNT, completed: COUNT, failed: 0, calls: COUNT });
});

test('the bill has one charge for each question, and every proof holds', () => {
  expect(JSON.parse(done.bill.stdout)).toMatchObject({ lines: COUNT, imported: true });
  expect(JSON.parse(done.audit.stdout)).toMatchObject({ ok: true, problems: [], in_doubt: 0 });
});

test('the answers are sentences of the documents, in the order of the questions and in whole Portuguese letters', () => {
  const answers: { item: string; result: { text: string } }[] = done.answers.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

  expect(answers.map(({ item }) => item)).toEqual(questions.map(({ item }) => item));
  for (const [index, { result }] of answers.entries()) {
    const document = readFileSync(join(folder.path, 'documents', questions[index]?.document ?? ''), 'utf8');
    expect(document).toContain(result.text.slice(0, 20));
  }
  expect(answers.map(({ result }) => result.text).join(' ')).toMatch(/ção/);
});

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { licenceQuestions, licenceReports } from '../../examples/licences/generate.ts';
import { runCommand } from '../support/command.ts';
import { testFolder } from '../support/test-folder.ts';

const LICENCES = fileURLToPath(new URL('../../examples/licences/', import.meta.url));
const GENERATOR = join(LICENCES, 'generate.ts');

/** A folder's files with their text. */
function textsIn(folder: string): { name: string; text: string }[] {
  return readdirSync(folder)
    .sort()
    .map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') }));
}

function linesOf(file: string): unknown[] {
  const lines = readFileSync(file, 'utf8').split('\n');
  expect(lines.pop(), 'the last line is ended').toBe('');
  return lines.map((line) => JSON.parse(line));
}

test('the reports in the repository are those that the generator gives, and there are no others', () => {
  expect(textsIn(join(LICENCES, 'reports'))).toEqual(licenceReports());
});

test('the questions in the repository are the first that the generator gives', () => {
  const committed = linesOf(join(LICENCES, 'questions.jsonl'));

  expect(committed).toEqual(licenceQuestions(12));
});

test('the script writes the same reports and as many questions as it is asked for, in whatever process', async () => {
  const out = testFolder();
  const { code, stderr } = await runCommand(['--tasks', '401', '--out', out], { script: GENERATOR });

  expect([code, stderr]).toEqual([0, '']);
  expect(textsIn(join(out, 'reports'))).toEqual(licenceReports());
  expect(linesOf(join(out, 'questions.jsonl'))).toEqual(licenceQuestions(401));
});

test('question 215 is item "215", and the same one whether 215 questions or 1,000 are asked for', () => {
  const many = licenceQuestions(1_000);

  expect(many[214]?.item).toBe('215');
  expect(licenceQuestions(215)).toEqual(many.slice(0, 215));
});

test('no question is asked twice, however many are asked for', () => {
  const questions = licenceQuestions(2_000).map(({ question }) => question);

  expect(new Set(questions).size).toBe(2_000);
});

test('every question is about a report that is there, and the first 400 ask about every report', () => {
  const names = licenceReports().map(({ name }) => name);
  const asked = new Set(licenceQuestions(400).map(({ document }) => document));

  expect([...asked].sort()).toEqual(names);
});

test('a report has 40 to 80 lines, and no two are alike', () => {
  const reports = licenceReports().map(({ text }) => text);
  const counts = reports.map((text) => text.split('\n').length - 1);

  expect(Math.min(...counts)).toBeGreaterThanOrEqual(40);
  expect(Math.max(...counts)).toBeLessThanOrEqual(80);
  expect(new Set(reports).size).toBe(20);
});

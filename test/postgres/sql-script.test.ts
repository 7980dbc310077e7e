import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { readScript, type ScriptStep } from '../../src/postgres/sql-script.ts';

const read = (script: string, variables: Record<string, string> = {}): ScriptStep[] => [
  ...readScript(script, new Map(Object.entries(variables))),
];
const statements = (script: string, variables?: Record<string, string>): string[] =>
  read(script, variables).map((step) => (step.kind === 'statement' ? step.text : `\\${step.name}`));

test('statements end at semicolons, the last one may end without', () => {
  expect(statements('SELECT 1; SELECT 2 ;;\n\nSELECT 3')).toEqual(['SELECT 1', 'SELECT 2', 'SELECT 3']);
});

test('a semicolon or colon within quotes ends nothing and names nothing', () => {
  const script = `SELECT 'a;b''c;:x', "col;umn"";:x", E'it\\'s;:x'; SELECT 2`;
  expect(statements(script, { x: 'WRONG' })).toEqual([`SELECT 'a;b''c;:x', "col;umn"";:x", E'it\\'s;:x'`, 'SELECT 2']);
});

test('a backslash within ordinary quotes is a character', () => {
  expect(statements(`SELECT 'C:\\'; SELECT 2`)).toEqual([`SELECT 'C:\\'`, 'SELECT 2']);
});

test('dollar quotes are left as they are, inner ones with another tag included', () => {
  const body = `$fn$ BEGIN; PERFORM $$a;:x$$; -- no comment\nEND $fn$`;
  expect(statements(`DO ${body}; SELECT $$;$$`, { x: 'WRONG' })).toEqual([`DO ${body}`, 'SELECT $$;$$']);
});

test('a parameter or a name with a dollar sign opens no quote', () => {
  expect(statements('SELECT $1; SELECT a$b$c; SELECT 3')).toEqual(['SELECT $1', 'SELECT a$b$c', 'SELECT 3']);
});

test('comments are no part of a statement, and what stands in them is not read', () => {
  expect(statements(`-- it's :x;\nSELECT 1 /* ;\n :x ' */ + 2; -- end`, { x: 'WRONG' })).toEqual(['SELECT 1   + 2']);
});

test('a comment within a comment does not end the outer one', () => {
  expect(statements('SELECT 1 /* a /* b */ ; c */; SELECT 2 /* no end ;')).toEqual(['SELECT 1', 'SELECT 2']);
});

test('variables are filled in plain, as a literal and as an identifier', () => {
  expect(statements(`SELECT :n, :'text', :"name"`, { n: '7', text: "O'Hara \\", name: 'a "b"' })).toEqual([
    `SELECT 7,  E'O''Hara \\\\', "a ""b"""`,
  ]);
});

test('an unknown variable, a cast and a slice are left alone', () => {
  expect(statements(`SELECT :unknown, '1'::int, a[1:2]`, { int: 'WRONG' })).toEqual([
    `SELECT :unknown, '1'::int, a[1:2]`,
  ]);
});

test('backslash commands stand between statements, with their words', () => {
  expect(read(`\\set batch '2026-11'\n\\echo 'it''s' :batch\nSELECT 1;\n\\quit\n`, { batch: 'x' })).toEqual([
    { kind: 'command', name: 'set', words: ['batch', '2026-11'], line: 1 },
    { kind: 'command', name: 'echo', words: ["it's", 'x'], line: 2 },
    { kind: 'statement', text: 'SELECT 1', line: 3 },
    { kind: 'command', name: 'quit', words: [], line: 4 },
  ]);
});

test('a variable that the caller sets between two steps counts for the next', () => {
  const variables = new Map<string, string>();
  const steps = readScript(`\\set n 1\nSELECT :n`, variables);
  steps.next();
  variables.set('n', '1');
  expect(steps.next().value).toMatchObject({ text: 'SELECT 1' });
});

test('each step knows its line', () => {
  expect(read('\n-- first\nSELECT 1\n;\n\n  SELECT\n 2').map(({ line }) => line)).toEqual([3, 6]);
});

test('every script that is shipped is read to statements without variables left', () => {
  const folder = join(packageRoot(), 'db', 'audit');
  for (const file of readdirSync(folder)) {
    const texts = statements(readFileSync(join(folder, file), 'utf8'), { batch: '2026-11', action: '12' });
    expect(texts.length, file).toBeGreaterThan(0);
    expect(texts.join('\n'), file).not.toMatch(/(^|[^:]):['"a-z]/);
  }
});

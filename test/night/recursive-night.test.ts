import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { FAQUAD_IS_MISSING, FAQUAD_IS_THERE, type FaquadBatch, writeFaquad } from '../support/faquad.ts';
import { checkAnswers } from './recursive-answers.ts';
import { differencesOf, problemsOf } from './recursive-verdict.ts';
import { CALLS_PER_QUESTION, type RecursiveNight, runRecursiveNight } from './run-recursive-night.ts';

const QUESTIONS = 20;
/** Draws a worker, the database and a worker, all of them long before the end. */
const SEED = 28;
/** Replies come in another order than they were asked for: a replay that mixed them up would diverge. */
const OUT_OF_ORDER = '2-20';
const PATIENCE_MS = 300_000;

let folder: string;
let batch: FaquadBatch;
let plain: RecursiveNight;
let killed: RecursiveNight;

beforeAll(async () => {
  if (!FAQUAD_IS_THERE) return;
  folder = mkdtempSync(join(tmpdir(), 'madrugada-recursive-'));
  chmodSync(folder, 0o755); // a server that root starts must reach it
  batch = await writeFaquad(folder, QUESTIONS);
  const night = (name: string, kills: number, latencyMs?: string) =>
    runRecursiveNight({ folder: join(folder, name), batch, workers: 2, concurrency: 4, kills, seed: SEED, latencyMs });
  [plain, killed] = await Promise.all([night('plain', 0), night('killed', 3, OUT_OF_ORDER)]);
}, PATIENCE_MS);
afterAll(() => {
  if (FAQUAD_IS_THERE) rmSync(folder, { recursive: true });
});
beforeEach(({ skip }) => skip(!FAQUAD_IS_THERE, FAQUAD_IS_MISSING));

const rawAnswers = ({ answers }: RecursiveNight) => [...answers].map(([item, { raw }]) => [item, raw]);

test('20 questions in Portuguese about all documents together are answered, 25 calls each', () => {
  expect(plain.completed).toBe(QUESTIONS);
  expect([...plain.answers.keys()]).toEqual([...batch.references.keys()]);
  expect([plain.calls, plain.charges]).toEqual([QUESTIONS * CALLS_PER_QUESTION, QUESTIONS * CALLS_PER_QUESTION]);
});

test('every citation of both nights stands in the document it names', () => {
  for (const { citations, badCitations } of [...plain.answers.values(), ...killed.answers.values()]) {
    expect(citations).toBeGreaterThan(0);
    expect(badCitations).toEqual([]);
  }
});

test('most answers contain what people have answered', () => {
  const alike = [...plain.answers.values()].filter(({ hasReference }) => hasReference);
  expect(alike.length).toBeGreaterThan(QUESTIONS / 2);
});

test('the kills found the night at work, and cost it attempts whose calls were replayed', () => {
  expect(killed.kills.map(({ target }) => target)).toEqual(['worker', 'database', 'worker']);
  expect(killed.attemptsLost).toBeGreaterThan(0);
  expect(killed.replayed).toBeGreaterThan(0);
});

test('after two killed workers and a killed database the answers are the same, byte for byte', () => {
  expect(rawAnswers(killed)).toEqual(rawAnswers(plain));
});

test('a killed night is paid for once, but for calls that were named in doubt before its bill came', () => {
  expect(problemsOf(killed)).toEqual([]);
  expect([...killed.duplicates.keys()].filter((call) => !killed.named.has(call))).toEqual([]);
});

test('where nobody is killed nothing is charged twice, in doubt, or lost', () => {
  expect(problemsOf(plain)).toEqual([]);
  expect([plain.duplicates.size, plain.named.size, plain.attemptsLost, plain.replayed]).toEqual([0, 0, 0, 0]);
});

test('a night that is not as it must be is found out, whatever is wrong with it', () => {
  const call = 'faquad:001:v1 3';
  const one: Partial<RecursiveNight>[] = [
    { completed: QUESTIONS - 1 },
    { answers: new Map([...plain.answers].slice(1)) },
    { charges: plain.charges + 1 },
    { duplicates: new Map([[call, 1]]), charges: plain.charges + 1 },
    { unexplained: ['journal and bill differ in 1 lines'] },
    { killsPlanned: 1 },
    { named: new Set([call]) },
    { attemptsLost: 1 },
  ];
  for (const change of one) expect(problemsOf({ ...plain, ...change }), JSON.stringify(change)).toHaveLength(1);
  expect(problemsOf({ ...plain, calls: plain.calls - 1 })).toHaveLength(2);
});

test('one changed letter in an answer is a difference, and one in a quote is a citation that does not check', () => {
  const [first] = plain.answers;
  if (first === undefined) throw new Error('there is no answer');
  const [item, answer] = first;
  const quoteAt = answer.raw.indexOf('"quote": "') + '"quote": "'.length;
  const spoilt = `${answer.raw.slice(0, quoteAt)}#${answer.raw.slice(quoteAt + 1)}`;

  const other = checkAnswers(`${JSON.stringify({ item }).slice(0, -1)},"result":${spoilt}}\n`, batch);
  expect(other.get(item)?.badCitations).toHaveLength(1);
  const changed = { ...plain, answers: new Map([...plain.answers, ...other]) };
  expect(differencesOf(plain, changed)).toHaveLength(1);
  expect(problemsOf(changed)).toHaveLength(1);
  expect(differencesOf(plain, plain)).toEqual([]);
});

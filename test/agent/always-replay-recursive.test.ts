import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { licenceQuestions } from '../../examples/licences/generate.ts';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { rootTurn } from '../../src/simulator/root-program.ts';
import { forkSimulator, temporaryFolder } from '../simulator/forked-simulator.ts';
import { runCommand } from '../support/command.ts';
import { createTestDatabase } from '../support/database.ts';

const REPORTS = join(packageRoot(), 'examples', 'licences', 'reports');
/** Three whose programs are written in most of the styles that the simulated root model has. */
const QUESTIONS = licenceQuestions(10).filter(({ item }) => ['4', '9', '10'].includes(item));
const CALLS = 3 * 25;
/** Replies come in another order than they were asked for: a replay that mixed them up would diverge. */
const OUT_OF_ORDER = ['--latency-ms', '1-20'];
const PATIENCE_MS = 300_000;

interface Night {
  account: unknown;
  audit: unknown;
  /** The exported results, as they are. */
  results: string[];
}

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let plain: Night;
let replayed: Night;
beforeAll(async () => {
  folder = await temporaryFolder();
  const lines = QUESTIONS.map(({ item, question }) => `${JSON.stringify({ item, question })}\n`);
  writeFileSync(join(folder.path, 'questions.jsonl'), lines.join(''));
  plain = await night('plain');
  replayed = await night('replayed', { MADRUGADA_ALWAYS_REPLAY: '1' });
}, PATIENCE_MS);
afterAll(() => folder?.remove());

/** The questions about all reports together, by the commands that a person gives. Every night has a database of its own, so that keys are the same. */
async function night(name: string, extra: Record<string, string> = {}): Promise<Night> {
  const db = await createTestDatabase();
  const bill = join(folder.path, `${name}.jsonl`);
  const simulator = await forkSimulator(bill, OUT_OF_ORDER);
  const environment = { DATABASE_URL: db.url, ANTHROPIC_BASE_URL: simulator.url, ...extra };
  const madrugada = async (...words: string[]) => {
    const { code, stdout, stderr } = await runCommand(words, { folder: folder.path, environment });
    expect(code, `${words.join(' ')}: ${stderr}`).toBe(0);
    return stdout;
  };
  try {
    const options = ['--version', 'v1', '--agent', 'recursive', '--option', `documents=${REPORTS}`];
    await madrugada('batch', 'load', 'licences', 'questions.jsonl', ...options);
    const run = 'run licences --workers 1 --concurrency 3 --json'.split(' ');
    const account = JSON.parse(await madrugada(...run));
    await madrugada('bill', 'import', 'licences', bill);
    const audit = JSON.parse(await madrugada('audit', 'licences', '--json'));
    const answers = await madrugada('answers', 'licences');
    return { account, audit, results: answers.trimEnd().split('\n').map(resultIn) };
  } finally {
    await simulator.stop();
    await db.drop();
  }
}

function resultIn(line: string): string {
  return line.slice(line.indexOf(',"result":'));
}

test('the programs of the three questions race, batch, generate, keep state in classes, and two do not parse', () => {
  const turns = QUESTIONS.map(({ question }) => [2, 3, 4, 5, 6].map((turn) => rootTurn(question, turn)));
  const code = turns.flat().map((turn) => turn.code);
  for (const way of ['Promise.race', 'allSettled', 'llmBatch', 'async function*', 'class Reader'])
    expect(code.join('\n')).toContain(way);
  expect(turns.flat().filter(({ prose }) => prose.includes('syntax error'))).toHaveLength(2);
});

test('replayed after every call, three questions have the same answers, byte for byte', () => {
  expect(plain.results).toHaveLength(3);
  expect(replayed.results).toEqual(plain.results);
});

test('every call was replayed, and each is on the bill once', () => {
  expect(plain.account).toMatchObject({ completed: 3, calls: CALLS, replayed: 0 });
  expect(replayed.account).toMatchObject({ completed: 3, calls: CALLS, replayed: CALLS });
  for (const { audit } of [plain, replayed]) expect(audit).toMatchObject({ ok: true, problems: [], in_doubt: 0 });
});

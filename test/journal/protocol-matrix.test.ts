import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import {
  type Cell,
  coveringPoints,
  ENDINGS,
  type EndingName,
  playCell,
  pointsWithEndings,
  problemsOf,
  shortly,
} from './protocol-matrix.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(async () => {
  await db?.drop();
  printTable();
});

const names = Object.keys(ENDINGS) as EndingName[];
/** All 138 cells by `npm run test:matrix`; else every point and every ending once. */
const points = process.env.MADRUGADA_MATRIX === 'whole' ? pointsWithEndings() : coveringPoints();
const cells = new Map<string, Cell>();

describe.concurrent('killed in a call, and resumed: bill, journal, holds and answers agree', {
  timeout: 360_000,
}, () => {
  for (const [point, endings] of points)
    for (const name of endings)
      test(`killed at ${point}, ending: ${name}`, async () => {
        const cell = await playCell(db, point, name);
        cells.set(`${point} ${name}`, cell);
        expect(problemsOf(cell, name)).toEqual([]);
      });
});

test('the cells that the suite plays come to every point, and have every ending', () => {
  const covering = coveringPoints();
  expect(covering.map(([point]) => point)).toEqual(pointsWithEndings().map(([point]) => point));
  expect(new Set(covering.flatMap(([, endings]) => endings))).toEqual(new Set(names));
});

test('a bill, an answer or a hold that does not agree is found out', async () => {
  const sound = await playCell(db, 'journal.outcome.before@2', 'answer');
  const [first] = sound.bill;
  if (first === undefined) throw new Error('nothing was charged');
  const wrong: Cell[] = [
    { ...sound, isKilled: false },
    { ...sound, task: { ...sound.task, result: ['answer to one'] } },
    { ...sound, bill: [...sound.bill, 'a stranger'] },
    { ...sound, bill: sound.bill.slice(1) },
    { ...sound, money: { ...sound.money, holds: false } },
    { ...sound, dispatches: sound.dispatches.map((one) => ({ ...one, inDoubt: false })) },
  ];
  expect(problemsOf(sound, 'answer')).toEqual([]);
  for (const cell of wrong) expect(problemsOf(cell, 'answer')).not.toEqual([]);
  expect(problemsOf({ ...sound, bill: [...sound.bill, first] }, 'answer')).not.toEqual([]);
});

/** Charges for three calls, by where the worker was killed and how its dispatch ended. */
function printTable(): void {
  const width = Math.max(...points.map(([point]) => point.length));
  const columns = names.map((name) => Math.max(name.length, 12));
  const line = (first: string, texts: string[]) =>
    [first.padEnd(width), ...texts.map((text, index) => text.padEnd(columns[index] ?? 0))].join('  ').trimEnd();
  const rows = points.map(([point]) =>
    line(
      point,
      names.map((name) => {
        const cell = cells.get(`${point} ${name}`);
        return cell ? shortly(cell) : '-';
      }),
    ),
  );
  process.stdout.write(
    `\ncharges for three calls; twice: paid again, named in doubt; ?: in doubt, not charged\n${[line('killed at', names), ...rows].join('\n')}\n`,
  );
}

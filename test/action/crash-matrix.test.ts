import { afterAll, beforeAll, expect, test } from 'vitest';
import { bankDatabase } from '../support/bank.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { type Case, type Cell, KINDS, MODES, playCases, pointsOf, problemsOf, shortly } from './crash-matrix.ts';

/** Every point of every kind in every mode; without, each point, kind and mode at least once. */


const bank = bankDatabase();
let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(async () => {
  await db?.drop();
  printTable();
});

const cells: Cell[] = [];

const only = process.env.ONLY;
function casesOf(kind: (typeof KINDS)[number]): Case[] {
  return MODES.flatMap((mode) => pointsOf(kind, mode).map((point) => ({ kind, mode, points: [point] })));
}

test('killed in an action, and resumed: one effect or none, and what is on record is true of the target', {
  timeout: 900_000,
}, async () => {
  const played = await Promise.all(
    KINDS.filter((kind) => !only || kind === only).map((kind) => playCases(db, bank.db, casesOf(kind))),
  );
  cells.push(...played.flat());
  const problems = cells.map((cell) => [`${cell.kind} ${cell.mode} ${cell.points}`, problemsOf(cell)] as const);
  expect(Object.fromEntries(problems.filter(([, list]) => list.length > 0))).toEqual({});
});

/** How each action ended, and what the target has taken and taken back, by where its worker was killed. */
function printTable(): void {
  for (const cell of cells)
    process.stdout.write(
      `${cell.kind.padEnd(9)} ${cell.mode.padEnd(9)} ${cell.points.join(', ').padEnd(32)} ${shortly(cell)}\n`,
    );
}

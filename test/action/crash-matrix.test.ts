import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bankDatabase } from '../support/bank.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import {
  type Case,
  type Cell,
  coveringCases,
  KINDS,
  MODES,
  playCases,
  playFrozen,
  problemsOf,
  shortly,
  TWICE,
  wholeMatrix,
} from './crash-matrix.ts';

/** Every point of every kind in every mode (`npm run test:actions`); else every point, every kind and every mode at least once. */
const isWhole = process.env.MADRUGADA_ACTION_MATRIX === 'whole';
const CASES = [...(isWhole ? wholeMatrix() : coveringCases()), ...TWICE];

/** Batches that are played at the same time. */
const CHAINS = 4;

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

test('the cases leave out no kind and no mode', () => {
  expect(new Set(CASES.map(({ kind, mode }) => `${kind} ${mode}`)).size).toBe(KINDS.length * MODES.length);
});

test('killed in an action, and resumed: one effect or none, and what is on record is true of the target', {
  timeout: isWhole ? 1_800_000 : 300_000,
}, async () => {
  const chains = Array.from({ length: CHAINS }, (_, chain) => CASES.filter((_, n) => n % CHAINS === chain));
  const played = await Promise.all(chains.map((cases) => playCases(db, bank.db, cases)));
  cells.push(...played.flat());
  const problems = cells.map((cell) => [`${cell.kind} ${cell.mode} ${cell.points}`, problemsOf(cell)] as const);
  expect(Object.fromEntries(problems.filter(([, list]) => list.length > 0))).toEqual({});
});

describe('frozen in an execution, overtaken, and woken after its deadline, an executor adds nothing', () => {
  const cases: Case[] = [
    { kind: 'postgres', mode: 'execute', points: ['action.begin.after@1'] },
    { kind: 'http', mode: 'execute', points: ['action.begin.after@1'] },
    ...(isWhole ? [{ kind: 'http', mode: 'execute', points: ['action.execute.after@1'] } satisfies Case] : []),
  ];
  for (const one of cases)
    test(`${one.kind} at ${one.points}`, { timeout: 120_000 }, async () => {
      const cell = await playFrozen(db, bank.db, one);
      expect(problemsOf(cell)).toEqual([]);
    });

  test('postgres in the middle of its transaction: nobody can tell, and a person is asked', {
    timeout: 120_000,
  }, async () => {
    const cell = await playFrozen(db, bank.db, {
      kind: 'postgres',
      mode: 'execute',
      points: ['action.postgres.written@1'],
    });
    expect(cell).toMatchObject({ action: { state: 'unknown' }, effects: 0, openAlerts: ['action unknown'] });
  });
});

test('an effect, an alert or a state that does not agree is found out', () => {
  const sound: Cell = {
    kind: 'http',
    mode: 'rollback',
    points: ['action.undo.after@1'],
    struck: ['action.undo.after@1'],
    effects: 1,
    undone: 1,
    isAsBefore: true,
    action: { state: 'rolled_back', why: null, execution: 1, undo: 1 },
    task: { state: 'failed', waitingFor: null, result: null },
    openAlerts: ['action rolling back'],
  };
  expect(problemsOf(sound)).toEqual([]);
  const wrong: Partial<Cell>[] = [
    { struck: [] },
    { effects: 2 },
    { undone: 2 },
    { undone: 0, isAsBefore: false },
    { openAlerts: [] },
    { task: { ...sound.task, state: 'completed' } },
    { action: { state: 'unknown', why: null, execution: 1, undo: 0 }, openAlerts: [] },
    { action: { state: 'committed', why: null, execution: 1, undo: 0 } },
    { action: { state: 'aborted', why: null, execution: 1, undo: 0 }, openAlerts: ['action aborted'] },
    { action: undefined },
  ];
  for (const change of wrong) expect(problemsOf({ ...sound, ...change }), JSON.stringify(change)).not.toEqual([]);
});

/** How each action ended, and what its target has taken, and taken back, by where its worker was killed. */
function printTable(): void {
  const key = ({ points }: Cell) => points.join(', then ');
  const columns = KINDS.flatMap((kind) => MODES.map((mode) => `${kind} ${mode}`)).filter((column) =>
    cells.some(({ kind, mode }) => column === `${kind} ${mode}`),
  );
  const width = Math.max(0, ...cells.map((cell) => key(cell).length));
  const line = (first: string, texts: string[]) =>
    [first.padEnd(width), ...texts.map((text) => text.padEnd(17))].join('  ').trimEnd();
  const rows = [...new Set(cells.map(key))].map((points) =>
    line(
      points,
      columns.map((column) => {
        const cell = cells.find((one) => key(one) === points && column === `${one.kind} ${one.mode}`);
        return cell ? shortly(cell) : '';
      }),
    ),
  );
  process.stdout.write(
    `\nhow the action ended, and effects at its target; 1-1: one, taken back once\n${[line('killed at', columns), ...rows].join('\n')}\n`,
  );
}

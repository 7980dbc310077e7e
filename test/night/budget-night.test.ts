import { chmodSync } from 'node:fs';
import Big from 'big.js';
import { expect, test } from 'vitest';
import { testFolder } from '../support/test-folder.ts';
import { type BudgetNight, problemsOf, runBudgetNight } from './run-budget-night.ts';

const TASKS = 60;
const PATIENCE_MS = 240_000;

test(
  '64 slots with half the money spend no cent more, use nearly all of it, leave nothing stuck, and finish when it is raised',
  async () => {
    const folder = testFolder();
    chmodSync(folder, 0o755); // a server that root starts must reach it
    const night = await runBudgetNight(folder, TASKS, 2, 32);
    expect(problemsOf(night, TASKS)).toEqual([]);
  },
  PATIENCE_MS,
);

test('a night that overspends, wastes, sticks, stops for another reason or is paid twice is found out', () => {
  const sound: BudgetNight = {
    budget: new Big('12.3'),
    billed: new Big('12.3'),
    holdRatio: 5,
    completed: 20,
    stuck: 0,
    state: 'stopped',
    reason: 'the budget of the batch is used up',
    proofHolds: true,
    afterwards: { completed: TASKS, billed: new Big('24.6'), charges: 1500 },
  };
  const wrong: Partial<BudgetNight>[] = [
    { billed: new Big('12.3001') },
    { billed: new Big('11.93') },
    { holdRatio: 4.9 },
    { stuck: 1 },
    { state: 'open' },
    { reason: 'the provider refuses this account' },
    { proofHolds: false },
    { afterwards: { ...sound.afterwards, completed: TASKS - 1 } },
    { afterwards: { ...sound.afterwards, charges: 1501 } },
    { afterwards: { ...sound.afterwards, billed: new Big('24.6122') } },
  ];
  expect(problemsOf(sound, TASKS)).toEqual([]);
  for (const change of wrong)
    expect(problemsOf({ ...sound, ...change }, TASKS), JSON.stringify(change)).toHaveLength(1);
});

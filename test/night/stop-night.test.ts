import { chmodSync } from 'node:fs';
import { expect, test } from 'vitest';
import { testFolder } from '../support/test-folder.ts';
import { LATEST_MS, problemsOf, runStopNight, type StopNight } from './run-stop-night.ts';

const SIZES = { tasks: 64, workers: 4, concurrency: 16 };
const PATIENCE_MS = 240_000;

for (const [flags, now, what] of [
  ['', false, 'records what was in flight'],
  [' --now', true, 'breaks off what was in flight and lists it as in doubt'],
] as const)
  test(
    `stop${flags} ends the charges of a night at full speed, ${what}, and loses and pays twice nothing when it is lifted`,
    async () => {
      const folder = testFolder();
      chmodSync(folder, 0o755); // a server that root starts must reach it
      const night = await runStopNight(folder, { ...SIZES, now });
      expect(problemsOf(night, { ...SIZES, now }), JSON.stringify(night)).toEqual([]);
    },
    PATIENCE_MS,
  );

test('a night that goes on charging, loses what was in flight, names too little or pays twice is found out', () => {
  const { tasks } = SIZES;
  const waited: StopNight = {
    inFlight: { charged: 190, not_sent: 2 },
    lastChargeMs: LATEST_MS,
    late: 0,
    running: 0,
    doubts: 0,
    unexplained: 0,
    afterwards: { completed: tasks, charges: tasks * 25, duplicates: 0, unmatched: 0 },
  };
  const cut: StopNight = { ...waited, inFlight: { charged: 40, unknown: 150 }, doubts: 150 };
  const wrong: Partial<StopNight>[] = [
    { late: 1 },
    { running: 1 },
    { unexplained: 1 },
    { inFlight: { charged: 31 }, doubts: 0 },
    { inFlight: { ...waited.inFlight, nothing: 1 } },
    { doubts: 1 },
    { afterwards: { ...waited.afterwards, completed: tasks - 1 } },
    { afterwards: { ...waited.afterwards, charges: tasks * 25 + 1 } },
    { afterwards: { ...waited.afterwards, duplicates: 1 } },
    { afterwards: { ...waited.afterwards, unmatched: 1 } },
  ];
  expect(problemsOf(waited, { tasks, now: false })).toEqual([]);
  for (const change of wrong)
    expect(problemsOf({ ...waited, ...change }, { tasks, now: false }), JSON.stringify(change)).toHaveLength(1);
  expect(problemsOf(cut, { tasks, now: true })).toEqual([]);
  for (const change of [{ doubts: 149 }, { inFlight: { charged: 140 }, doubts: 0 }])
    expect(problemsOf({ ...cut, ...change }, { tasks, now: true }), JSON.stringify(change)).toHaveLength(1);
  expect(problemsOf(cut, { tasks, now: false })).toHaveLength(1);
});

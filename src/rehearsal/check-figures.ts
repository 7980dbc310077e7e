import Big from 'big.js';
import type { Figures } from './figures.ts';
import type { Expectation } from './rehearsal-run.ts';

/** What the example agent makes for one question, and what that costs at the simulated provider's prices. */
const CALLS_PER_TASK = 25;
const USD_PER_TASK = '0.41';

/** Everything that is not as it must be, in words; empty when the run has proved what it should. */
export function checkFigures(figures: Figures, expected: Expectation): string[] {
  const { tasks, named, auditDuplicates } = figures;
  const problems: string[] = [];
  const mustBe = (what: string, value: number | string, wanted: number | string) => {
    if (value !== wanted) problems.push(`${what}: ${value}, and it must be ${wanted}`);
  };
  mustBe('tasks completed', figures.completed, tasks);
  mustBe('calls answered in the journal', figures.answered, tasks * CALLS_PER_TASK);
  mustBe('duplicate charges on the bill', figures.duplicates, expected.duplicates);
  mustBe('charges on the bill', figures.calls, tasks * CALLS_PER_TASK + figures.duplicates);
  mustBe(
    'dollars on the bill',
    dollars(figures.usd),
    dollars(figures.duplicatesUsd.plus(new Big(USD_PER_TASK).times(tasks))),
  );
  mustBe('calls named in doubt before the bill', named.size, expected.inDoubt);
  mustBe('duplicates found by the audit view', auditDuplicates.length, figures.duplicates);
  for (const { call, named: knew } of auditDuplicates) {
    if (!named.has(call)) problems.push(`call ${call} was charged twice, and was not named before the bill came`);
    if (!knew) problems.push(`call ${call} was charged twice, and the audit view does not say that it was in doubt`);
  }
  if (figures.unmatched > named.size)
    problems.push(`journal and bill differ in ${figures.unmatched} lines, and only ${named.size} calls were in doubt`);
  if (expected.attempts !== undefined) mustBe('attempts of the question', figures.question.attempts, expected.attempts);
  return problems;
}

/** US dollars with at least two decimals, exact. */
export function dollars(usd: Big): string {
  return usd.toFixed(Math.max(2, usd.toFixed().split('.')[1]?.length ?? 0));
}

import { canonicalJson } from '../journal/canonical-json.ts';
import type { Finding } from '../postgres/finding.ts';
import type { RehearsedAction } from './module-stage.ts';

/** The runs of a module, by what befell them. */
export interface ModuleRuns {
  clean: RehearsedAction[];
  crash: RehearsedAction[];
  verification: RehearsedAction[];
}

export type ModuleVerdict = 'production' | 'staging' | 'research-only';

/**
 * The rules of the verdict. `research-only`: a scenario did not end as it must, or no action was proposed. `staging`: all did, but the evidence
 * is weak, nothing shows the target's state, or the store does not keep what it is given. Else `production`.
 */
export function judgeModule(runs: ModuleRuns, store: Finding[]): { verdict: ModuleVerdict; reasons: string[] } {
  const failures = [
    ...(runs.clean.length === 0 ? ['the run proposed no action: there is nothing to rehearse'] : []),
    ...runs.clean.flatMap((action) => takenBack('clean', action)),
    ...runs.crash.flatMap((action) => takenBack('crash', action)),
    ...runs.verification.flatMap((action) => takenBack('verification', action)),
    ...runs.clean.flatMap((action) => oneEffect(action, runs.crash)),
  ];
  if (failures.length > 0) return { verdict: 'research-only', reasons: failures };
  const doubts = [
    ...runs.clean
      .filter((action) => action.evidenceIsWeak)
      .map(({ name }) => `${name}: its read-back is weak evidence`),
    ...runs.clean
      .filter(({ shown }) => shown.before === null)
      .map(({ name }) => `${name}: it has no present(), so nothing but its own read-back shows the target's state`),
    ...store.filter(({ level }) => level === 'fail').map(({ check, seen }) => `the store: ${check}: ${seen}`),
  ];
  if (doubts.length > 0) return { verdict: 'staging', reasons: doubts };
  return {
    verdict: 'production',
    reasons: ['every scenario ended as it must, on strong evidence, in a durable store'],
  };
}

/** What no program takes back ends with a person; everything else is rolled back, and in-band the target is as it was. */
function takenBack(run: string, { name, state, why, rollbackKind, shown }: RehearsedAction): string[] {
  const expected = rollbackKind === 'none' || rollbackKind === 'out-of-band' ? 'needs_person' : 'rolled_back';
  if (state !== expected)
    return [`${run}: ${name} ended as ${state}, and must end as ${expected}${why ? ` (${why})` : ''}`];
  if (rollbackKind !== 'in-band' || same(shown.before, shown.end)) return [];
  return [
    `${run}: ${name} was rolled back, and its target is not as it was: ${text(shown.before)} before, ${text(shown.end)} after`,
  ];
}

/** Crashed after its effect and resumed, the target shows what it shows after one effect without a crash. */
function oneEffect(clean: RehearsedAction, crashed: RehearsedAction[]): string[] {
  const twin = crashed.find(({ name, arguments: args }) => name === clean.name && same(args, clean.arguments));
  if (twin === undefined) return [`crash: ${clean.name} was not proposed again with the arguments of the clean run`];
  if (same(twin.shown.effect, clean.shown.effect)) return [];
  return [
    `crash: after ${clean.name}, crashed and resumed, the target shows ${text(twin.shown.effect)}; without a crash ${text(clean.shown.effect)}`,
  ];
}

function same(one: unknown, other: unknown): boolean {
  return canonicalJson(text(one)) === canonicalJson(text(other));
}

function text(value: unknown): string {
  return JSON.stringify(value) ?? 'null';
}

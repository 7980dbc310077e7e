import type { RehearsalRun } from './rehearsal-run.ts';
import { crashAnywhere } from './run-crash-anywhere.ts';

/** The same crash at a random moment, with a provider that can be asked: what was in flight is recovered, and nothing is paid twice. */
export const windowRecovered: RehearsalRun = {
  ...crashAnywhere,
  name: 'window-recovered',
  lookUp: true,
  expect: () => ({ duplicates: 0, inDoubt: 0, attempts: undefined }),
};

import type { RehearsalRun } from './rehearsal-run.ts';

/** An undisturbed night. */
export const noCrash: RehearsalRun = {
  name: 'no-crash',
  tasks: 400,
  async perform(stage) {
    stage.startNight();
    await stage.finishNight();
  },
  expect: () => ({ duplicates: 0, inDoubt: 0, attempts: 1 }),
};

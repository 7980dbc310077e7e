import type { RehearsalRun } from './rehearsal-run.ts';

/** A call that the example agent makes alone, so that nothing else is in flight: the third turn of its root model. */
const CALL = 15;

/** One worker dies between the provider's answer and its record: the one moment in which money can be spent twice, and it is named. */
export const windowRun: RehearsalRun = {
  name: 'window',
  tasks: 80,
  async perform(stage) {
    stage.startNight([`journal.outcome.before[${stage.questionKey()}]:kill(${stage.mark('killed')})@${CALL}`]);
    await stage.finishNight();
  },
  expect: () => ({ duplicates: 1, inDoubt: 1, attempts: 2 }),
};

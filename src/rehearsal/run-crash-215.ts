import { existsSync, rmSync } from 'node:fs';
import type { RehearsalRun } from './rehearsal-run.ts';
import type { Stage } from './stage.ts';

/** The recorded call of the question after which everything is killed: in its middle. */
const CALL = 13;

/**
 * Everything is killed in the middle of one question, with every slot at a call boundary: what was paid is recorded, so both bills must be
 * equal. That is by construction; `crash-anywhere` is the evidence for any other moment.
 */
export const crash215: RehearsalRun = {
  name: 'crash-215',
  tasks: 400,
  async perform(stage) {
    const gate = stage.mark('gate');
    stage.startNight([
      `journal.outcome.after[${stage.questionKey()}]:create(${gate})@${CALL}`,
      `journal.intent.before:gate(${gate})`,
    ]);
    await stage.during(`call ${CALL} of ${stage.questionKey()}`, async () => existsSync(gate));
    await freezeAtBoundary(stage);
    stage.options.say(`crash-215: killing supervisor, workers and database in the middle of ${stage.questionKey()}`);
    await stage.crashEverything();
    rmSync(gate);
    stage.startNight();
    await stage.finishNight();
  },
  expect: () => ({ duplicates: 0, inDoubt: 0, attempts: 2 }),
};

/**
 * Stops every process, and looks whether any dispatch is in flight; until none is, they go on. A process that is frozen cannot send what it
 * has not yet recorded as sent, and it is killed frozen.
 */
async function freezeAtBoundary(stage: Stage): Promise<void> {
  await stage.during('every slot to stand at a call boundary', async () => {
    await stage.signalAll('SIGSTOP');
    if (await isQuiet(stage)) return true;
    await stage.signalAll('SIGCONT');
    return false;
  });
}

async function isQuiet({ pool, batchKey }: Stage): Promise<boolean> {
  const { rows } = await pool.query<{ quiet: boolean }>(
    `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE 'madrugada/w%/journal' AND datname = current_database() AND state <> 'idle')
        AND NOT EXISTS (SELECT FROM madrugada.audit_in_doubt WHERE batch_key = $1) AS quiet`,
    [batchKey],
  );
  return rows[0]?.quiet ?? false;
}

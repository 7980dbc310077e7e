import type { RehearsalRun } from './rehearsal-run.ts';
import type { Stage } from './stage.ts';

/** Everything is killed at a random moment of full concurrency: what was in flight may be paid twice, nothing else, and it was named. */
export const crashAnywhere: RehearsalRun = {
  name: 'crash-anywhere',
  tasks: 80,
  providerFlags: ['--latency-ms', '5-40'],
  async perform(stage) {
    stage.startNight();
    const share = 0.2 + 0.6 * Math.random();
    const target = Math.floor(stage.options.tasks * 25 * share);
    await stage.during(`charge ${target}`, async () => (await charged(stage)) >= target);
    await stage.crashEverything();
    const { rows } = await stage.pool.query<{ count: number }>(
      'SELECT count(*) AS count FROM madrugada.audit_in_doubt WHERE batch_key = $1',
      [stage.batchKey],
    );
    stage.options.say(
      `${stage.options.name}: killed everything after ${target} calls, ${rows[0]?.count ?? 0} in flight`,
    );
    stage.startNight();
    await stage.finishNight();
  },
  // any number of what was named may have been charged before the crash; that the charged ones were named is checked for every run
  expect: ({ duplicates, named }) => ({ duplicates, inDoubt: named.size, attempts: undefined }),
};

async function charged({ pool, batchKey }: Stage): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `SELECT count(*) AS count FROM madrugada.call_outcome WHERE batch_key = $1 AND kind = 'charged'`,
    [batchKey],
  );
  return rows[0]?.count ?? 0;
}

import { existsSync } from 'node:fs';
import type { RehearsalRun } from './rehearsal-run.ts';
import type { Stage } from './stage.ts';

/** A call that the example agent makes alone. */
const CALL = 15;

/**
 * Three workers are stopped with SIGSTOP past their lease, and go on after another slot has taken their task over: one between two calls, one
 * with calls in flight that are recorded before their deadline, and one with a recorded answer to come long after it.
 */
export const slowWorker: RehearsalRun = {
  name: 'slow-worker',
  tasks: 24,
  leaseSeconds: 3,
  providerFlags: ['--latency-ms', '150'],
  environment: { MADRUGADA_DISPATCH_SECONDS: '15' },
  async perform(stage) {
    const between = stage.questionKey(-1);
    const late = stage.questionKey(0);
    const inFlight = stage.questionKey(1);
    stage.startNight([
      `journal.outcome.after[${between}]:stop(${stage.mark('between')})@1`,
      `journal.outcome.before[${late}]:stop(${stage.mark('late')})@${CALL}`,
    ]);
    await Promise.all([
      stopBetweenCalls(stage, between),
      stopWithCallsInFlight(stage, inFlight),
      stopBeyondDeadline(stage, late),
    ]);
    await stage.finishNight();
  },
  expect: () => ({ duplicates: 1, inDoubt: 1, attempts: undefined }),
};

async function stopBetweenCalls(stage: Stage, key: string): Promise<void> {
  await stage.during(`${key} to be stopped`, async () => existsSync(stage.mark('between')));
  const stopped = await stage.during(`the worker of ${key}`, () => firstWorker(stage, key));
  await stage.during(`another slot to take ${key}`, async () => (await attempts(stage, key)).length > 1);
  process.kill(stopped, 'SIGCONT');
  stage.options.say(`slow-worker: ${key} was taken over while its worker stood still between two calls`);
}

async function stopWithCallsInFlight(stage: Stage, key: string): Promise<void> {
  const stopped = await stage.during(`a call of ${key} in flight`, async () => {
    const pid = await firstWorker(stage, key);
    if (pid === undefined || !(await hasCallsInFlight(stage, key))) return undefined;
    process.kill(pid, 'SIGSTOP');
    if (await hasCallsInFlight(stage, key)) return pid;
    process.kill(pid, 'SIGCONT'); // recorded while we looked: the next one
    return undefined;
  });
  await stage.during(`another slot to take ${key} and to wait`, async () =>
    (await attempts(stage, key)).some(({ ending }) => ending === 'parked'),
  );
  process.kill(stopped, 'SIGCONT');
  stage.options.say(`slow-worker: ${key} waited for the calls that its stopped worker had in flight`);
}

async function stopBeyondDeadline(stage: Stage, key: string): Promise<void> {
  await stage.during(`${key} to be stopped`, async () => existsSync(stage.mark('late')));
  const stopped = await stage.during(`the worker of ${key}`, () => firstWorker(stage, key));
  await stage.during(`call ${CALL} of ${key} to be paid again`, async () => {
    const { rowCount } = await stage.pool.query(
      `SELECT FROM madrugada.call WHERE key = $1 AND seq = $2 AND dispatch > 1 AND kind = 'charged'`,
      [key, CALL],
    );
    return rowCount === 1;
  });
  process.kill(stopped, 'SIGCONT');
  stage.options.say(`slow-worker: call ${CALL} of ${key} was paid again after its deadline`);
}

async function attempts({ pool }: Stage, key: string): Promise<{ pid: number; ending: string | null }[]> {
  const { rows } = await pool.query<{ pid: number; ending: string | null }>(
    `SELECT w.pid, a.ending FROM madrugada.attempt a
       JOIN madrugada.task t ON t.id = a.task_id JOIN madrugada.worker w ON w.id = a.worker_id
      WHERE t.key = $1 ORDER BY a.number`,
    [key],
  );
  return rows;
}

async function firstWorker(stage: Stage, key: string): Promise<number | undefined> {
  return (await attempts(stage, key))[0]?.pid;
}

async function hasCallsInFlight({ pool, batchKey }: Stage, key: string): Promise<boolean> {
  const { rows } = await pool.query('SELECT FROM madrugada.audit_in_doubt WHERE batch_key = $1 AND key = $2', [
    batchKey,
    key,
  ]);
  return rows.length > 0;
}

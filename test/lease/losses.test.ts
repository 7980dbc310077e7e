import { expect, test } from 'vitest';
import type { Lease } from '../../src/journal/lease.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf, passages } from '../support/audit.ts';
import { intentRow, stepRow } from '../support/journal-rows.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { takeAway } from '../support/leases.ts';
import { moveClock } from '../support/move-clock.ts';

const bench = leaseBench();

/** What an attempt writes before its process dies. */
const records = {
  nothing: async () => undefined,
  'a call': async (lease: Lease) => void (await bench.worker.env.writer.writeIntent(intentRow(lease, lease.token))),
  'a step': async (lease: Lease) => void (await bench.worker.env.writer.writeStep(stepRow(lease, 'name'))),
};

/** Claims the batch's task and loses it again, `times` times over; the states the task went back to. */
async function lose(batch: string, times: number, record: (lease: Lease) => Promise<unknown>): Promise<string[]> {
  const states: string[] = [];
  for (let n = 1; n <= times; n += 1) {
    const { lease } = await bench.worker.claim(batch);
    await record(lease);
    await takeAway(bench.db, lease.taskId);
    states.push((await taskOf(bench.db, batch)).state);
  }
  return states;
}

test('attempts lost without having recorded anything are used up: the third fails the task', async () => {
  const batch = await loadTestBatch(bench.db);
  expect(await lose(batch, 3, records.nothing)).toEqual(['pending', 'pending', 'failed']);
  expect((await taskOf(bench.db, batch)).failure).toMatchObject({
    kind: 'lost',
    message: 'every allowed attempt was lost with its process; last: by the test',
  });
  expect(await passages(bench.db, batch)).toEqual(['claimed', 'resumed', 'claimed', 'resumed', 'claimed', 'failed']);
});

for (const what of ['a call', 'a step'] as const)
  test(`attempts lost after recording ${what} are not used up`, async () => {
    const batch = await loadTestBatch(bench.db);
    expect(await lose(batch, 5, records[what])).toEqual(Array(5).fill('pending'));
    expect((await attemptsOf(bench.db, batch)).map(({ ending }) => ending)).toEqual(Array(5).fill('lost'));
  });

test('after losses that were not used up, the attempts are all still there', async () => {
  const batch = await loadTestBatch(bench.db);
  await lose(batch, 4, records['a call']);
  expect(await lose(batch, 3, records.nothing)).toEqual(['pending', 'pending', 'failed']);
});

test('records of an earlier attempt do not spare a later one that adds none', async () => {
  const batch = await loadTestBatch(bench.db, { maxAttempts: 1 });
  await lose(batch, 1, records['a call']);
  expect(await lose(batch, 1, records.nothing)).toEqual(['failed']);
});

test('the twentieth loss fails a task, whatever was recorded: it does not kill workers all night', async () => {
  const batch = await loadTestBatch(bench.db);
  const states = await lose(batch, 20, records['a call']);
  expect(states).toEqual([...Array(19).fill('pending'), 'failed']);
});

test('attempts ended by an expired lease do not bypass the limit: the third fails the task', async () => {
  const batch = await loadTestBatch(bench.db);
  const states: string[] = [];
  for (let n = 1; n <= 3; n += 1) {
    await bench.worker.claim(batch);
    await moveClock(bench.db, '11 minutes');
    await bench.worker.pool.query(`SELECT madrugada.sweep_expired_leases('-infinity')`);
    states.push((await taskOf(bench.db, batch)).state);
  }
  expect(states).toEqual(['pending', 'pending', 'failed']);
  expect(await bench.worker.tryClaim(batch)).toBeUndefined();
});

test('losses and failures count together', async () => {
  const batch = await loadTestBatch(bench.db);
  await lose(batch, 2, records.nothing);
  const { lease } = await bench.worker.claim(batch);
  const { rows } = await bench.worker.pool.query(
    `SELECT madrugada.end_attempt($1, $2, $3, 'failed', '{"message": "no"}', false, NULL, NULL, 0) AS state`,
    [lease.taskId, lease.workerId, lease.token],
  );
  expect(rows).toEqual([{ state: 'failed' }]);
});

test('a task that fails by its losses waits for a person, whose retry gives it fresh attempts', async () => {
  const batch = await loadTestBatch(bench.db, { maxAttempts: 1 });
  await lose(batch, 1, records.nothing);
  const { id } = await taskOf(bench.db, batch);
  await bench.db.pool.query(
    `SELECT set_config('madrugada.by', 'Ana', false), set_config('madrugada.reason', 'seen', false), madrugada.retry_task($1, NULL)`,
    [id],
  );
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0, failure: null });
});

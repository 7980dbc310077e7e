import { expect, test } from 'vitest';
import { openAlerts } from '../../src/batch/alerts.ts';
import { findBatch } from '../../src/batch/find-batch.ts';
import { sayAndRun } from '../support/as-person.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';

const bench = leaseBench();

const fails = () => {
  throw new Error('no document');
};
const completes = () => 'an answer';

/** Runs attempts on the batch's tasks one after the other. */
async function attempts(batch: string, ...runs: (() => unknown)[]): Promise<void> {
  for (const run of runs) await bench.worker.attempt(batch, run);
}

function batchThatStopsAfter(failures: number): Promise<string> {
  return loadTestBatch(bench.db, { tasks: 12, maxAttempts: 1, stopAfterFailures: failures });
}

const stateOf = async (batch: string) => (await findBatch(bench.db.pool, batch)).state;

test('a batch stops when as many attempts in a row have failed as it allows, and says why', async () => {
  const batch = await batchThatStopsAfter(3);
  await attempts(batch, fails, fails);
  const before = await stateOf(batch);
  await attempts(batch, fails);
  const message = '3 attempts in a row have failed, and none was completed meanwhile; the last: no document';

  expect(before).toBe('open');
  expect(await findBatch(bench.db.pool, batch)).toMatchObject({ state: 'stopped', stopReason: message });
  expect(await openAlerts(bench.db.pool)).toContainEqual(
    expect.objectContaining({ kind: 'failures', batchKey: batch, message }),
  );
});

test('a batch allows ten failures in a row unless it says otherwise', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 12, maxAttempts: 1 });
  await attempts(batch, ...Array(9).fill(fails));
  const afterNine = await stateOf(batch);
  await attempts(batch, fails);

  expect([afterNine, await stateOf(batch)]).toEqual(['open', 'stopped']);
});

test('a completed task ends a row of failures', async () => {
  const batch = await batchThatStopsAfter(3);
  await attempts(batch, fails, fails, completes, fails, fails);
  expect(await stateOf(batch)).toBe('open');
});

test('an attempt that is given back is no failure', async () => {
  const batch = await batchThatStopsAfter(2);
  await attempts(batch, fails);
  const { lease } = await bench.worker.claim(batch);
  await bench.db.pool.query(
    `SELECT madrugada.end_attempt($1, $2, $3, 'released', '{"message": "the worker is stopping"}', false, NULL, NULL, 0)`,
    [lease.taskId, lease.workerId, lease.token],
  );
  expect(await stateOf(batch)).toBe('open');
});

test('failures count anew when a person has resumed the batch', async () => {
  const batch = await batchThatStopsAfter(2);
  await attempts(batch, fails, fails);
  await sayAndRun(bench.db, 'SELECT madrugada.resume_batch($1)', [batch]);
  await attempts(batch, fails);
  const afterOne = await stateOf(batch);
  await attempts(batch, fails);

  expect([afterOne, await stateOf(batch)]).toEqual(['open', 'stopped']);
});

test('failures of one batch do not count for another', async () => {
  const [one, other] = [await batchThatStopsAfter(2), await batchThatStopsAfter(2)];
  await attempts(one, fails);
  await attempts(other, fails);
  expect([await stateOf(one), await stateOf(other)]).toEqual(['open', 'open']);
});

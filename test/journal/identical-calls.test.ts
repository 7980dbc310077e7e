import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { openAlerts } from '../../src/batch/alerts.ts';
import { resumeBatch } from '../../src/batch/change-batch.ts';
import { findBatch } from '../../src/batch/find-batch.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';

const bench = journalBench();
const LIMIT = { limits: { maxIdenticalCalls: 3 } };

/** Asks each of these in turn. */
const asking =
  (...prompts: string[]) =>
  async (task: Task) => {
    for (const prompt of prompts) await ask(task, prompt);
  };
const inALoop = asking(...Array(10).fill('again'));

test('a task that makes the same call too often in one run stops its batch, with an alert, before that call is paid', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add(LIMIT);
  const result = await worker.attempt(batch, inALoop);

  expect(result.ending).toBe('stopped');
  expect(bench.provider.requestCount).toBe(3);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0 });
  expect(await openAlerts(bench.db.pool)).toMatchObject([
    { kind: 'identical calls', batchKey: batch, message: expect.stringContaining('the same call for the 4. time') },
  ]);
});

test('calls that differ are no loop, however many', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add(LIMIT);
  const result = await worker.attempt(batch, asking('1', '2', '1', '2', '1', '2', '3'));
  expect(result.ending).toBe('completed');
});

test('replayed calls count, so that a resumed loop pays no more', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add(LIMIT);
  await worker.attempt(batch, inALoop);
  const operator = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  await resumeBatch(operator, batch, { by: 'Ana', reason: 'once more' });
  await operator.end();
  await worker.attempt(batch, inALoop);

  expect((await findBatch(bench.db.pool, batch)).state).toBe('stopped');
  expect(bench.provider.requestCount).toBe(3);
});

test('who means it sets the limit higher: the task goes on from its journal', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add(LIMIT);
  await worker.attempt(batch, inALoop);
  const operator = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  await resumeBatch(operator, batch, { by: 'Ana', reason: 'it is meant to' });
  await operator.end();
  const patient = await bench.workers.add({ limits: { maxIdenticalCalls: 10 } });
  const result = await patient.attempt(batch, inALoop);

  expect(result).toMatchObject({ ending: 'completed', replayedCalls: 3 });
  expect(bench.provider.requestCount).toBe(10);
});

import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { closeBatch, resumeBatch, stopBatch } from '../../src/batch/change-batch.ts';
import { findBatch } from '../../src/batch/find-batch.ts';
import { retryTask } from '../../src/batch/retry-task.ts';
import { parseTaskKey } from '../../src/batch/task-key.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch, type TestWorker, TestWorkers, taskOf } from '../support/attempts.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const WHY = { by: 'ana', reason: 'by the test' };

let db: TestDatabase;
let client: Client;
let workers: TestWorkers;
let worker: TestWorker;

beforeAll(async () => {
  db = await createTestDatabase();
  client = await openClient({ url: db.url, as: 'operator', applicationName: 'test changes' });
  workers = new TestWorkers(db, 'http://127.0.0.1:9'); // no test sends anything
  worker = await workers.add();
});
afterAll(async () => {
  await workers.closeAll();
  await client.end();
  await db.drop();
});

async function stateOf(batch: string): Promise<string> {
  return (await findBatch(client, batch)).state;
}

async function failedTask(): Promise<string> {
  const batch = await loadTestBatch(db, { maxAttempts: 1 });
  await worker.attempt(batch, () => {
    throw new Error('no document');
  });
  return batch;
}

const keyOf = (batch: string) => batch.replace(':', ':1:');

describe('stopping and opening again', () => {
  test('say whether they changed anything', async () => {
    const batch = await loadTestBatch(db);
    expect([await stopBatch(client, batch, WHY), await stopBatch(client, batch, WHY)]).toEqual([true, false]);
    expect((await findBatch(client, batch)).stopReason).toBe('by the test');
    expect([await resumeBatch(client, batch, WHY), await resumeBatch(client, batch, WHY)]).toEqual([true, false]);
    expect((await findBatch(client, batch)).stopReason).toBeNull();
  });

  test('a closed batch is neither stopped nor opened', async () => {
    const batch = await failedTask();
    await closeBatch(client, batch, WHY, false);
    await expect(stopBatch(client, batch, WHY)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/is closed and cannot/),
    });
    await expect(resumeBatch(client, batch, WHY)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/is closed and cannot/),
    });
  });
});

describe('closing', () => {
  test('says whether it changed anything', async () => {
    const batch = await failedTask();
    expect(await closeBatch(client, batch, WHY, false)).toBe(true);
    expect(await closeBatch(client, batch, WHY, false)).toBe(false);
    expect(await stateOf(batch)).toBe('closed');
  });

  test('is refused while a task is pending', async () => {
    const batch = await loadTestBatch(db);
    await expect(closeBatch(client, batch, WHY, false)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/1 tasks are neither/),
    });
    expect(await stateOf(batch)).toBe('open');
  });

  test('gives pending tasks up only in a stopped batch', async () => {
    const batch = await loadTestBatch(db);
    await expect(closeBatch(client, batch, WHY, true)).rejects.toThrow(/stop it first/);
    await stopBatch(client, batch, WHY);
    expect(await closeBatch(client, batch, WHY, true)).toBe(true);
    expect(await taskOf(db, batch)).toMatchObject({
      state: 'failed',
      failure: { kind: 'given up', message: 'by the test' },
    });
  });

  test('gives nothing up when it cannot close after all', async () => {
    const batch = await loadTestBatch(db, { tasks: 2 });
    await worker.claim(batch);
    await stopBatch(client, batch, WHY);
    await expect(closeBatch(client, batch, WHY, true)).rejects.toThrow(/nothing was changed/);
    expect(await taskOf(db, batch, 2)).toMatchObject({ state: 'pending' });
  });
});

describe('sending a task back', () => {
  test('makes a failed task pending with fresh attempts, and says who did it and why', async () => {
    const batch = await failedTask();
    await retryTask(client, keyOf(batch), WHY);
    expect(await taskOf(db, batch)).toMatchObject({ state: 'pending', attempts: 0, failure: null });
    const { rows } = await db.pool.query(
      `SELECT event, by_name, reason FROM madrugada.audit_event WHERE batch_key = $1 ORDER BY id DESC LIMIT 1`,
      [batch],
    );
    expect(rows).toMatchObject([{ by_name: 'ana', reason: 'by the test' }]);
  });

  test.each([
    [
      'a task that has not failed',
      async () => keyOf(await loadTestBatch(db)),
      undefined,
      /is pending; only a failed task/,
    ],
    ['a task of a closed batch', closedTask, undefined, /is closed: load the task again/],
    ['calls that are not recorded', async () => keyOf(await failedTask()), 3, /no recorded call 3 or later; nothing/],
    ['a task that is not there', async () => 'none:1:v1', undefined, /no task none:1:v1/],
  ])('is refused for %s', async (_, task, payAgainFrom, message) => {
    await expect(retryTask(client, await task(), WHY, payAgainFrom)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(message),
    });
  });

  test('changes nothing when its calls cannot be paid again', async () => {
    const batch = await failedTask();
    await expect(retryTask(client, keyOf(batch), WHY, 1)).rejects.toThrow();
    expect(await taskOf(db, batch)).toMatchObject({ state: 'failed' });
  });

  test.each(['by', 'reason'])('needs its %s', async (missing) => {
    const batch = await failedTask();
    await expect(retryTask(client, keyOf(batch), { ...WHY, [missing]: '' })).rejects.toMatchObject({ exitCode: 2 });
  });
});

async function closedTask(): Promise<string> {
  const batch = await failedTask();
  await closeBatch(client, batch, WHY, false);
  return keyOf(batch);
}

test('a task key is split at its first and last colon', () => {
  expect(parseTaskKey('2026-11:a:b:v3')).toEqual({ batch: '2026-11', item: 'a:b', version: 'v3' });
});

test.each(['', 'x', 'a:b', ':b:c', 'a:b:', 'a::c'])('%j is no task key', (key) => {
  expect(() => parseTaskKey(key)).toThrow(/BATCH:ITEM:VERSION/);
});

import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { acknowledgeAlert, allAlerts, openAlerts } from '../../src/batch/alerts.ts';
import { resumeBatch, stopBatch } from '../../src/batch/change-batch.ts';
import { findBatch } from '../../src/batch/find-batch.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { openTransaction } from '../support/open-transaction.ts';

const WHY = { by: 'Ana', reason: 'key renewed' };

let db: TestDatabase;
let operator: Client;
let worker: Client;
beforeAll(async () => {
  db = await createTestDatabase();
  operator = await openClient({ url: db.url, as: 'operator', applicationName: 'test alerts' });
  worker = await openClient({ url: db.url, as: 'worker', applicationName: 'test alerts' });
});
afterAll(async () => {
  await operator.end();
  await worker.end();
  await db.drop();
});

/** What a worker does that meets a reason to stop. */
async function stopAutomatically(batch: string, kind = 'account', client: Client = worker): Promise<boolean> {
  const { rows } = await client.query<{ stopped: boolean }>(
    'SELECT madrugada.stop_automatically($1, $2, $3) AS stopped',
    [batch, kind, 'HTTP 401'],
  );
  return rows[0]?.stopped === true;
}

const alertsOf = async (batch: string) => (await allAlerts(db.pool)).filter(({ batchKey }) => batchKey === batch);

async function firstAlert(batch: string): Promise<number> {
  const [alert] = await alertsOf(batch);
  if (alert === undefined) throw new Error(`batch ${batch} has no alert`);
  return alert.id;
}

async function auditOf(batch: string, subject: string): Promise<unknown[]> {
  const { rows } = await db.pool.query(
    'SELECT event, reason, by_name FROM madrugada.audit_event WHERE batch_key = $1 AND subject = $2 ORDER BY id',
    [batch, subject],
  );
  return rows;
}

test('an automatic stop stops the batch and raises an alert', async () => {
  const batch = await loadTestBatch(db);

  expect(await stopAutomatically(batch)).toBe(true);
  expect(await findBatch(db.pool, batch)).toMatchObject({ state: 'stopped', stopReason: 'HTTP 401' });
  expect(await alertsOf(batch)).toMatchObject([
    { kind: 'account', message: 'HTTP 401', acknowledgedAt: null, acknowledgedBy: null },
  ]);
});

test('an automatic stop that is rolled back has raised no alert', async () => {
  const batch = await loadTestBatch(db);
  await worker.query('BEGIN');
  await stopAutomatically(batch);
  await worker.query('ROLLBACK');

  expect(await alertsOf(batch)).toEqual([]);
  expect((await findBatch(db.pool, batch)).state).toBe('open');
});

test('of two slots that stop a batch at the same time one does it, and one alert is raised', async () => {
  const batch = await loadTestBatch(db);
  await worker.query('BEGIN');
  const first = await stopAutomatically(batch);
  const second = stopAutomatically(batch, 'account', operator);
  await worker.query('COMMIT');

  expect([first, await second]).toEqual([true, false]);
  expect(await alertsOf(batch)).toHaveLength(1);
});

const raiseAlert = (kind: string, batch: string | null) =>
  db.pool.query('INSERT INTO madrugada.alert (kind, batch_key, message) VALUES ($1, $2, $3)', [kind, batch, 'again']);

for (const [of, batch] of [
  ['a batch', 'any:v1'],
  ['no single batch', null],
] as const)
  test(`the database keeps no second open alert of a kind and of ${of}, another kind, and one after the first is acknowledged`, async () => {
    await raiseAlert('account', batch);
    await expect(raiseAlert('account', batch)).rejects.toThrow('alert_open');
    await raiseAlert('velocity', batch);
    await raiseAlert('account', 'other:v1');
    await db.pool.query(`UPDATE madrugada.alert SET acknowledged_at = now(), acknowledged_by = 'Ana'`);
    await raiseAlert('account', batch);
    await db.pool.query(`UPDATE madrugada.alert SET acknowledged_at = now(), acknowledged_by = 'Ana'`);
  });

test('a stop for a reason of which an alert is still open raises no second one', async () => {
  const batch = await loadTestBatch(db);
  await raiseAlert('account', batch);

  expect(await stopAutomatically(batch)).toBe(true);
  expect(await alertsOf(batch)).toMatchObject([{ message: 'again' }]);
});

test('a batch that a person has stopped raises no alert when the program would stop it as well', async () => {
  const batch = await loadTestBatch(db);
  await stopBatch(operator, batch, WHY);

  expect(await stopAutomatically(batch)).toBe(false);
  expect(await alertsOf(batch)).toEqual([]);
});

test('the audit trail gives the reason of an automatic stop, not that of what else its transaction does', async () => {
  const batch = await loadTestBatch(db);
  await worker.query(`BEGIN; SET LOCAL madrugada.reason = 'its answer does not fit'`);
  await stopAutomatically(batch);
  const { rows } = await worker.query(`SELECT madrugada.said('reason') AS still`);
  await worker.query('COMMIT');

  expect((await auditOf(batch, 'batch')).at(-1)).toMatchObject({ event: 'stopped', reason: 'HTTP 401' });
  expect(await auditOf(batch, 'alert')).toEqual([{ event: 'raised', reason: 'account: HTTP 401', by_name: null }]);
  expect(rows).toEqual([{ still: 'its answer does not fit' }]);
});

test('an alert that a person acknowledges is no longer open, and the audit trail says who it was', async () => {
  const batch = await loadTestBatch(db);
  await stopAutomatically(batch);
  const id = await firstAlert(batch);

  expect(await acknowledgeAlert(operator, id, 'Ana', 'seen')).toBe(true);
  expect((await openAlerts(db.pool)).map((alert) => alert.id)).not.toContain(id);
  expect(await alertsOf(batch)).toMatchObject([
    { acknowledgedBy: 'Ana', ackNote: 'seen', acknowledgedAt: expect.any(Date) },
  ]);
  expect((await auditOf(batch, 'alert')).at(-1)).toEqual({
    event: 'acknowledged',
    reason: 'account: seen',
    by_name: 'Ana',
  });
});

test('acknowledging an alert twice keeps who was first', async () => {
  const batch = await loadTestBatch(db);
  await stopAutomatically(batch);
  const id = await firstAlert(batch);
  await acknowledgeAlert(operator, id, 'Ana', 'seen');

  expect(await acknowledgeAlert(operator, id, 'Rui', undefined)).toBe(false);
  expect(await alertsOf(batch)).toMatchObject([{ acknowledgedBy: 'Ana' }]);
});

test('an alert that does not exist is named', async () => {
  await expect(acknowledgeAlert(operator, 999_999, 'Ana', undefined)).rejects.toThrow('there is no alert 999999');
});

test('acknowledging an alert opens no batch', async () => {
  const batch = await loadTestBatch(db);
  await stopAutomatically(batch);
  await acknowledgeAlert(operator, await firstAlert(batch), 'Ana', 'seen');
  expect((await findBatch(db.pool, batch)).state).toBe('stopped');
});

test('who resumes a batch acknowledges its alerts, so that the next stop raises one again', async () => {
  const batch = await loadTestBatch(db);
  await stopAutomatically(batch);
  await resumeBatch(operator, batch, WHY);
  const afterResuming = await alertsOf(batch);
  await stopAutomatically(batch);

  expect(afterResuming).toMatchObject([{ acknowledgedBy: 'Ana', ackNote: 'batch resumed: key renewed' }]);
  expect((await alertsOf(batch)).map(({ acknowledgedBy }) => acknowledgedBy)).toEqual(['Ana', null]);
});

for (const [deed, sql] of [
  ['a batch is not resumed', 'SELECT madrugada.resume_batch($1)'],
  ['the stop of everything is not lifted', 'SELECT madrugada.lift_stop() WHERE $1::text IS NOT NULL'],
] as const)
  for (const given of ['by', 'reason'])
    test(`${deed} by somebody who gives nothing but a ${given}`, async () => {
      const batch = await loadTestBatch(db);
      await stopBatch(operator, batch, WHY);
      const { client, rollback } = await openTransaction(db);
      await client.query(`SET LOCAL madrugada.${given} = 'Ana'`);
      await expect(client.query(sql, [batch])).rejects.toThrow('needs a name and a reason');
      await rollback();
      expect((await findBatch(db.pool, batch)).state).toBe('stopped');
    });

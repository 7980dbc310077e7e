import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { allAlerts, openAlerts } from '../../src/batch/alerts.ts';
import { resumeEverything } from '../../src/batch/change-batch.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { liftStop } from '../support/as-person.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { runCommand } from '../support/command.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { testFolder } from '../support/test-folder.ts';

const bench = leaseBench();
afterEach(async () => {
  await bench.db.pool.query('DELETE FROM madrugada.server_identity');
  await bench.db.pool.query('DELETE FROM madrugada.alert');
  await liftStop(bench.db);
});

const check = async (): Promise<boolean> => {
  const { rows } = await bench.worker.pool.query('SELECT madrugada.check_server_identity() AS same');
  return rows[0].same;
};
const isStopped = async (): Promise<boolean> => {
  const { rows } = await bench.worker.pool.query('SELECT madrugada.is_stopped() AS stopped');
  return rows[0].stopped;
};
/** Remembers another server than this one: what a restored copy, or a promoted standby, remembers. */
const remember = (changed: 'system_identifier' | 'timeline_id') =>
  bench.db.pool.query(
    `INSERT INTO madrugada.server_identity (system_identifier, timeline_id)
     SELECT s.system_identifier + $1, c.timeline_id + $2 FROM pg_control_system() s, pg_control_checkpoint() c`,
    changed === 'system_identifier' ? [1, 0] : [0, 1],
  );

async function resume() {
  const operator = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  try {
    return await resumeEverything(operator, { by: 'Ana', reason: 'the bill was compared' });
  } finally {
    await operator.end();
  }
}

test('the first server a database sees is the one it knows', async () => {
  expect([await check(), await check(), await isStopped()]).toEqual([true, true, false]);
});

for (const changed of ['system_identifier', 'timeline_id'] as const) {
  test(`another ${changed} stops everything`, async () => {
    await remember(changed);
    expect([await check(), await isStopped()]).toEqual([false, true]);
  });

  test(`after another ${changed} nothing is claimed until a person has confirmed the server and lifted the stop`, async () => {
    const batch = await loadTestBatch(bench.db);
    await remember(changed);
    await check();
    expect(await bench.worker.tryClaim(batch)).toBeUndefined();
    await liftStop(bench.db);
    const unconfirmed = [await check(), await isStopped()];
    const resumed = await resume();

    expect(unconfirmed).toEqual([false, true]);
    expect(resumed).toEqual({ lifted: true, confirmedServer: true });
    expect([await check(), await isStopped()]).toEqual([true, false]);
    expect(await bench.worker.tryClaim(batch)).toBeDefined();
  });
}

test('the stop of a changed server is an audit row, and says what was seen', async () => {
  await remember('timeline_id');
  await check();
  await check();
  const { rows } = await bench.db.pool.query(
    `SELECT event, reason FROM madrugada.audit_event WHERE subject = 'stop' ORDER BY id DESC LIMIT 1`,
  );
  expect(rows).toEqual([
    { event: 'stopped everything', reason: expect.stringMatching(/not the server it was \(system \d+, timeline 1\)/) },
  ]);
});

test('a worker on a changed server ends with 1 and says why, without having registered itself', async () => {
  await remember('system_identifier');
  const { rows: before } = await bench.db.pool.query('SELECT max(id) FROM madrugada.worker');
  const { code, stderr } = await runCommand(['worker', '--slot', 'host-a/1'], {
    environment: { DATABASE_URL: bench.db.url },
  });
  const { rows: after } = await bench.db.pool.query('SELECT max(id) FROM madrugada.worker');

  expect(code).toBe(1);
  expect(stderr).toMatch(/the database is not the server it was: a restored backup or a failover/);
  expect(after).toEqual(before);
});

test('a changed server raises one alert, with the stop, whoever looks and however often', async () => {
  await remember('timeline_id');
  await Promise.all([check(), check(), check()]);
  expect(await openAlerts(bench.db.pool)).toMatchObject([
    {
      kind: 'server',
      batchKey: null,
      message: expect.stringMatching(/not the server it was \(system \d+, timeline 1\)/),
    },
  ]);
});

test('a changed server raises an alert although somebody has stopped everything before', async () => {
  await remember('timeline_id');
  await bench.db.pool.query(`SELECT madrugada.stop_everything('too dear')`);
  await check();
  expect(await openAlerts(bench.db.pool)).toMatchObject([{ kind: 'server' }]);
});

test('an alert that is acknowledged is not raised again for the same server; one that is rolled back was none', async () => {
  await remember('timeline_id');
  const client = await bench.db.pool.connect();
  await client.query('BEGIN; SELECT madrugada.check_server_identity(); ROLLBACK');
  client.release();
  const rolledBack = await allAlerts(bench.db.pool);
  await check();
  await bench.db.pool.query(`UPDATE madrugada.alert SET acknowledged_at = now(), acknowledged_by = 'Ana'`);
  await check();

  expect(rolledBack).toEqual([]);
  expect(await allAlerts(bench.db.pool)).toHaveLength(1);
});

test('who confirms the server acknowledges its alert', async () => {
  await remember('timeline_id');
  await check();
  await resume();
  expect(await allAlerts(bench.db.pool)).toMatchObject([
    { acknowledgedBy: 'Ana', ackNote: 'server confirmed: the bill was compared' },
  ]);
});

test('a way back to a server that was known once stops everything as well', async () => {
  await check();
  await remember('system_identifier'); // another was confirmed meanwhile
  const back = await check();
  const stopped = await isStopped();
  await resume();

  expect([back, stopped, await check()]).toEqual([false, true, true]);
});

test('a worker that finds a changed server delivers the alert before it ends', async () => {
  const folder = testFolder();
  await remember('system_identifier');
  await runCommand(['worker', '--slot', 'host-a/1'], {
    environment: { DATABASE_URL: bench.db.url, MADRUGADA_ALERT_COMMAND: `cat > ${folder}/alert` },
  });
  expect(JSON.parse(readFileSync(join(folder, 'alert'), 'utf8'))).toMatchObject({ kind: 'server', batch: null });
});

import pg from 'pg';
import { expect, inject, onTestFinished, test } from 'vitest';
import { endWorker, leaveWorker, livingWorkers } from '../../src/lease/worker-row.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf, taskEvents } from '../support/audit.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { claimFor, registerRow } from '../support/leases.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { until } from '../support/until.ts';

const bench = leaseBench();

/** A worker of which a task and some of its connections are left. */
async function remains() {
  const batch = await loadTestBatch(bench.db);
  const workerId = await registerRow(bench.db);
  return { batch, workerId, lease: await claimFor(bench.db, workerId, batch) };
}

/** A connection under a worker's name, without the settings by which the server would soon notice its client's death. */
async function connectionOf(applicationName: string, url = bench.db.url): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: applicationName });
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

const end = (workerId: number) => endWorker(bench.worker.pool, workerId, 'killed by the test');

test('a worker’s end gives back what it held, and says why', async () => {
  const { batch, workerId, lease } = await remains();
  expect(await end(workerId)).toBe(true);
  expect((await taskOf(bench.db, batch)).state).toBe('pending');
  expect(await attemptsOf(bench.db, batch)).toMatchObject([{ ending: 'lost' }]);
  expect((await taskEvents(bench.db, batch)).at(-1)).toMatchObject({
    event: 'resumed',
    slot: lease.slot,
    workerId,
    reason: 'its worker ended: killed by the test',
  });
});

test('a worker’s end is one audit row, however often it is found dead', async () => {
  const { workerId } = await remains();
  await end(workerId);
  await end(workerId);
  const { rows } = await bench.db.pool.query(
    `SELECT event, reason FROM madrugada.audit_event WHERE subject = 'worker' AND worker_id = $1 ORDER BY id`,
    [workerId],
  );
  expect(rows).toEqual([
    { event: 'started', reason: null },
    { event: 'ended', reason: 'killed by the test' },
  ]);
});

test('nothing is given back while one of a dead worker’s statements is still at work: it can commit yet', async () => {
  const { batch, workerId, lease } = await remains();
  const blocker = await openTransaction(bench.db);
  await blocker.client.query('LOCK TABLE madrugada.step_record IN EXCLUSIVE MODE');
  const dying = await connectionOf(`madrugada/w${workerId}/journal`);
  const statement = dying.query(
    `INSERT INTO madrugada.step_record (batch_key, task_id, scope, kind, name, occurrence, attempt, worker_id, lease_token, value)
     VALUES ($1, $2, '', 'step', 'late', 1, $3, $4, $3, '1')`,
    [batch, lease.taskId, lease.token, workerId],
  );
  statement.catch(() => undefined);
  await until('the statement waits', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1 AND wait_event_type = 'Lock'`,
      [`madrugada/w${workerId}/journal`],
    );
    return rows.length > 0;
  });
  dying.connection.stream.destroy(); // the client's death, which the server does not see while it waits for the lock

  expect(await end(workerId)).toBe(false);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
  await blocker.commit();
  await until('the worker is ended', () => end(workerId));
  const { rows } = await bench.db.pool.query('SELECT name FROM madrugada.step_record WHERE batch_key = $1', [batch]);
  expect(rows).toEqual([{ name: 'late' }]);
  expect((await taskOf(bench.db, batch)).state).toBe('pending');
});

test('an idle connection that is left counts as well', async () => {
  const { workerId } = await remains();
  await connectionOf(`madrugada/w${workerId}/heartbeat`);
  expect(await end(workerId)).toBe(false);
});

test('connections of a worker whose number begins alike do not count', async () => {
  const { workerId } = await remains();
  await connectionOf(`madrugada/w${workerId}0/journal`);
  expect(await end(workerId)).toBe(true);
});

test('what a worker still holds when it says goodbye goes back, without using up an attempt', async () => {
  const { batch, workerId } = await remains();
  await leaveWorker(bench.worker.pool, workerId, 'the end of the night');
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0 });
  expect(await attemptsOf(bench.db, batch)).toMatchObject([
    { ending: 'released', error: 'its worker left: the end of the night' },
  ]);
});

test('a worker that says goodbye takes nothing from others', async () => {
  const { batch } = await remains();
  await leaveWorker(bench.worker.pool, await registerRow(bench.db), 'the end of the night');
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('only workers that have not ended are looked after, and a fresh heartbeat is no silence', async () => {
  const [living, ended] = [await registerRow(bench.db, { pid: 1, bootId: 'b' }), await registerRow(bench.db)];
  await end(ended);
  const workers = await livingWorkers(bench.worker.pool);
  expect(workers.find(({ id }) => id === living)).toMatchObject({ pid: 1, bootId: 'b', isSilent: false });
  expect(workers.some(({ id }) => id === ended)).toBe(false);
});

test('connections to another database of the server do not count: its workers have numbers of their own', async () => {
  const { workerId } = await remains();
  await connectionOf(`madrugada/w${workerId}/journal`, inject('serverUrl'));
  expect(await end(workerId)).toBe(true);
});

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { openClient } from '../../src/postgres/connect.ts';
import { dispatchesOf, kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf, endingsOf, taskEvents } from '../support/audit.ts';
import { claimFor, registerRow } from '../support/leases.ts';
import { testFolder } from '../support/test-folder.ts';
import { until } from '../support/until.ts';
import { holderOf, untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const AGENT = fileURLToPath(new URL('../support/agents/three-questions.ts', import.meta.url));

test('a night ends with 0 when every task is completed, and gives its account', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 4 });
  const { code, stdout } = await bench.processes.night(batch, { workers: 2 }).result;

  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    total: 4,
    completed: 4,
    failed: 0,
    calls: 4,
    usd: '0.00044',
    restarts: 0,
  });
});

test('a night that is over is over at once: run again it starts no worker', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.processes.night(batch).result;
  const { rows: before } = await bench.db.pool.query('SELECT count(*) FROM madrugada.worker');
  const { code } = await bench.processes.night(batch).result;
  const { rows: after } = await bench.db.pool.query('SELECT count(*) FROM madrugada.worker');

  expect(code).toBe(0);
  expect(after).toEqual(before);
});

test('a worker that is killed is noticed by its supervisor: its task is released at once, and goes on in another', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.script = (exchange) => (exchange.number === 2 ? undefined : exchange.message());
  const night = bench.processes.night(batch);
  await bench.provider.arrival(2);
  const worker = await holderOf(bench.db, batch);
  process.kill(worker.pid, 'SIGKILL');
  const { code, stdout, stderr } = await night.result;

  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ completed: 1, restarts: 1 });
  expect(stderr).toContain('worker 1 ended: killed by SIGKILL; it is started again');
  const events = await taskEvents(bench.db, batch);
  expect(events.map(({ event }) => event)).toEqual(['claimed', 'resumed', 'claimed', 'completed']);
  expect(events[1]).toMatchObject({ workerId: worker.id, reason: 'its worker ended: killed by SIGKILL' });
  // the call in flight was in doubt, which the proven death ended; what was recorded before is not paid again
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged', '2.1 -', '2.2 charged', '3.1 charged']);
  expect((await taskOf(bench.db, batch)).attempts).toBe(2);
});

test('what a dead worker of an earlier night holds is released when the next begins', async () => {
  const batch = await loadTestBatch(bench.db);
  const dead = await registerRow(bench.db, { pid: 4_194_305 }); // no process can have this number
  await claimFor(bench.db, dead, batch);
  const { code } = await bench.processes.night(batch).result;

  expect(code).toBe(0);
  expect((await taskEvents(bench.db, batch))[1]).toMatchObject({
    event: 'resumed',
    workerId: dead,
    reason: 'its worker ended: its process is gone',
  });
});

test('a night ends with 1 when tasks have failed, and says where to look', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 });
  bench.provider.script = (exchange) =>
    exchange.prompt.includes('question 1') ? exchange.refuse(400, 'invalid_request_error') : exchange.message();
  const { code, stdout } = await bench.processes.night(batch).result;

  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ completed: 1, failed: 1, interrupted: false });
});

test('a night ends with 1 when only tasks are left that a bill or a person must settle', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT, tasks: 2, doubtPolicy: 'hold' });
  const [held] = (await taskKeys(batch)) as [string];
  const mark = join(testFolder(), 'killed');
  const { code, stdout } = await bench.processes.night(batch, {
    environment: { MADRUGADA_FAILPOINT: `journal.outcome.before[${held}]:kill(${mark})@2` },
  }).result;

  expect(existsSync(mark)).toBe(true);
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ completed: 1, failed: 0, waiting: 1, interrupted: false });
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', waiting_for: 'settlement' });
  expect((await dispatchesOf(bench.db, batch)).filter(({ kind }) => kind === null)).toHaveLength(1);
});

test('a night whose batch a person stops ends with 1, its work given back, and says how to go on', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.hold();
  const night = bench.processes.night(batch);
  const exchange = await bench.provider.arrival(1);
  await bench.db.pool.query(`SELECT madrugada.stop_batch($1, 'too dear')`, [batch]);
  exchange.message();
  const { code, stdout } = await night.result;

  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ state: 'stopped', completed: 0, pending: 1 });
  expect(await endingsOf(bench.db, batch)).toEqual([`${batch}/1 stopped`]);
  expect(bench.provider.requestCount).toBe(1);
});

test('two nights of one batch, begun at the same moment, share its tasks and disturb nothing', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 12 });
  const nights = ['a', 'b'].map((slot) => bench.processes.night(batch, { slot, concurrency: 2 }));
  const results = await Promise.all(nights.map(({ result }) => result));

  expect(results.map(({ code }) => code)).toEqual([0, 0]);
  const attempts = await attemptsOf(bench.db, batch);
  expect(attempts.map(({ ending }) => ending)).toEqual(Array(12).fill('completed'));
  expect(bench.provider.requestCount).toBe(12);
  const calls = results.map(({ stdout }) => JSON.parse(stdout).calls as number);
  expect(calls.reduce((sum, count) => sum + count)).toBe(12);
});

test('a night that the server has too few connections for is refused before it begins', async () => {
  const batch = await loadTestBatch(bench.db);
  const { code, stderr } = await bench.processes.night(batch, { workers: 1000 }).result;

  expect(code).toBe(2);
  expect(stderr).toMatch(/1000 workers need 6005 database connections, and the server has \d+ free/);
  expect((await taskOf(bench.db, batch)).state).toBe('pending');
});

test('without a supervisor, too, a killed worker’s task goes on: in another process, on proof of its death', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.script = (exchange) => (exchange.number === 2 ? undefined : exchange.message());
  const first = bench.processes.worker('first', batch);
  await bench.provider.arrival(2);
  bench.processes.worker('second', batch);
  first.process.kill('SIGKILL');
  await untilDone(bench.db, batch);

  expect(await endingsOf(bench.db, batch)).toEqual(['first lost', 'second completed']);
  expect((await taskEvents(bench.db, batch))[1]?.reason).toMatch(/^its worker ended: its process (is gone|has ended)/);
});

test('a night waits for the last statement of each of its workers, and then ends', async () => {
  const batch = await loadTestBatch(bench.db);
  const { rows } = await bench.db.pool.query<{ next: number }>('SELECT max(id) + 1 AS next FROM madrugada.worker');
  const remains = await openClient({ url: bench.db.url, applicationName: `madrugada/w${rows[0]?.next}/late` });
  const night = bench.processes.night(batch);
  await until('the worker has left', async () => {
    const { rows: left } = await bench.db.pool.query(
      'SELECT FROM madrugada.worker WHERE id = $1 AND ended_at IS NOT NULL',
      [rows[0]?.next],
    );
    return left.length > 0;
  });
  await remains.end();
  expect((await night.result).code).toBe(0);
});

async function taskKeys(batch: string): Promise<string[]> {
  const { rows } = await bench.db.pool.query<{ key: string }>(
    'SELECT key FROM madrugada.task WHERE batch_key = $1 ORDER BY position',
    [batch],
  );
  return rows.map(({ key }) => key);
}

test('a worker that cannot start, because the database has become too new for it, ends the night instead of failing all night', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.hold();
  const night = bench.processes.night(batch);
  await bench.provider.arrival(1);
  await bench.db.pool.query(
    `INSERT INTO madrugada.schema_migration (name, sha256) VALUES ('9999_of_tomorrow.sql', 'unknown here')`,
  );
  process.kill((await holderOf(bench.db, batch)).pid, 'SIGKILL');
  const { code, stderr } = await night.result;
  await bench.db.pool.query(`DELETE FROM madrugada.schema_migration WHERE name = '9999_of_tomorrow.sql'`);

  expect(code).toBe(2);
  expect(stderr).toContain('9999_of_tomorrow.sql');
  expect(stderr).toContain('worker 1 cannot start; it says why above');
});

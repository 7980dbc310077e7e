import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { endingsOf, taskEvents } from '../support/audit.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { rowLockWait } from '../support/row-lock-wait.ts';
import { until } from '../support/until.ts';
import { holderOf, said, untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const AGENT = fileURLToPath(new URL('../support/agents/three-questions.ts', import.meta.url));

interface Connection {
  pid: number;
  name: string;
}

/** The connections of a worker process by their names. */
async function connectionsOf(workerId: number): Promise<Connection[]> {
  const { rows } = await bench.db.pool.query<Connection>(
    `SELECT pid, application_name AS name FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'madrugada/w' || $1 || '/%' ORDER BY 2`,
    [workerId],
  );
  return rows;
}

/** Cuts the connection that holds the locks of a worker’s slots. */
async function cutLock(workerId: number): Promise<void> {
  await bench.db.pool.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'madrugada/w' || $1 || '/slots'`,
    [workerId],
  );
}

test('a slot that starts gets back what its name held, and goes on with it before it takes anything else', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT, tasks: 2 });
  bench.provider.script = (exchange) => (exchange.number === 2 ? undefined : exchange.message());
  const first = bench.processes.worker('host-a/1', batch);
  await bench.provider.arrival(2);
  const dead = await holderOf(bench.db, batch);
  first.process.kill('SIGKILL');
  await first.result;
  const slowing = await openTransaction(bench.db);
  await slowing.client.query('SELECT FROM madrugada.worker WHERE id = $1 FOR UPDATE', [dead.id]);
  bench.processes.worker('host-a/1', batch);
  expect(await rowLockWait(bench.db)).toContain('end_worker');
  await slowing.commit();
  await untilDone(bench.db, batch);

  const events = await taskEvents(bench.db, batch);
  expect(events.map(({ item, event, slot }) => `${item} ${event} ${slot}`)).toEqual([
    '1 claimed host-a/1',
    '1 resumed host-a/1',
    '1 claimed host-a/1',
    '1 completed host-a/1',
    '2 claimed host-a/1',
    '2 completed host-a/1',
  ]);
});

test('a second process with the name of a slot in use is refused at its start, and the first goes on', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.hold();
  const first = bench.processes.worker('host-a/1', batch);
  const exchange = await bench.provider.arrival(1);
  const second = await bench.processes.worker('host-a/1', batch).result;
  bench.provider.script = (exchange) => exchange.message();
  exchange.message();
  await untilDone(bench.db, batch);
  await bench.processes.stop(first);

  expect(second.code).toBe(2);
  expect(second.stderr).toContain(
    'slot host-a/1 is held by another process: give this worker another --slot, or end that one first',
  );
  expect(await endingsOf(bench.db, batch)).toEqual(['host-a/1 completed']);
});

test('a second process is refused although only one of its slots is in use', async () => {
  const batch = await loadTestBatch(bench.db);
  bench.provider.hold();
  bench.processes.worker('shared.2', batch);
  await bench.provider.arrival(1);
  const { code, stderr } = await bench.processes.worker('shared', batch, { concurrency: 3 }).result;
  expect([code, stderr.includes('slot shared.2 is held')]).toEqual([2, true]);
});

test('a process has at most six connections, however many slots, and each says whose it is and what for', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT, tasks: 16 });
  bench.provider.hold();
  bench.processes.worker('many', batch, { concurrency: 16 });
  await bench.provider.arrival(16);
  const { rows } = await bench.db.pool.query<{ id: number }>('SELECT max(worker_id) AS id FROM madrugada.task');
  const id = rows[0]?.id ?? 0;
  bench.provider.script = (exchange) => exchange.message();
  for (const exchange of [...bench.provider.exchanges]) exchange.message();
  let most: Connection[] = [];
  await until('the batch is done', async () => {
    const now = await connectionsOf(id);
    if (now.length > most.length) most = now;
    return (await taskOf(bench.db, batch, 16)).state === 'completed';
  });
  const { rows: others } = await bench.db.pool.query(
    `SELECT application_name FROM pg_stat_activity
      WHERE datname = current_database() AND application_name NOT LIKE 'madrugada/w%' AND application_name <> 'madrugada test'`,
  );

  expect(most.map(({ name }) => name)).toEqual(
    ['heartbeat', 'journal', 'slots', 'work', 'work', 'work'].map((purpose) => `madrugada/w${id}/${purpose}`),
  );
  expect(others).toEqual([]);
});

test('a slot whose connection is cut takes its lock back and keeps its task', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.hold();
  bench.processes.worker('returning', batch);
  const exchange = await bench.provider.arrival(1);
  const { id } = await holderOf(bench.db, batch);
  const [before] = (await connectionsOf(id)).filter(({ name }) => name.endsWith('/slots'));
  await cutLock(id);
  await until('the lock is back', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT madrugada.slot_is_locked_by('returning', $1) AND pid <> $2 AS back FROM pg_stat_activity WHERE datname = current_database() AND application_name = $3`,
      [id, before?.pid, before?.name],
    );
    return rows[0]?.back;
  });
  bench.provider.script = (exchange) => exchange.message();
  exchange.message();
  await untilDone(bench.db, batch);

  expect(await endingsOf(bench.db, batch)).toEqual(['returning completed']);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged', '2.1 charged', '3.1 charged']);
});

test('a slot whose lock another took meanwhile sends nothing more, records what is in flight, gives its task back and ends', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.hold();
  const worker = bench.processes.worker('taken', batch);
  const exchange = await bench.provider.arrival(1);
  const { id } = await holderOf(bench.db, batch);
  const rival = await bench.db.pool.connect();
  const locked = rival.query(`SELECT pg_advisory_lock(madrugada.slot_lock_class(), madrugada.slot_lock_key('taken'))`);
  await until('the rival waits', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`,
    );
    return rows.length > 0;
  });
  await cutLock(id); // whoever waits has it before the worker is back
  await locked;
  await said(worker, 'taken by another process');
  exchange.message();
  const { code } = await worker.result;
  await rival.query('SELECT pg_advisory_unlock_all()');
  rival.release();

  expect(code).toBe(0);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
  expect(bench.provider.requestCount).toBe(1);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0 });
});

test('a worker without --batch serves every open batch', async () => {
  const batches = [await loadTestBatch(bench.db), await loadTestBatch(bench.db)];
  bench.processes.worker('any', undefined);
  for (const batch of batches) await untilDone(bench.db, batch);
});

test('a worker with --batch leaves the tasks of other batches alone', async () => {
  const [other, own] = [await loadTestBatch(bench.db), await loadTestBatch(bench.db)];
  const worker = bench.processes.worker('one', own);
  await untilDone(bench.db, own);
  await bench.processes.stop(worker);
  expect((await taskOf(bench.db, other)).state).toBe('pending');
});

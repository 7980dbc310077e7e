import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { resumeBatch, stopBatch, stopEverything } from '../../src/batch/change-batch.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { liftStop } from '../support/as-person.ts';
import { dispatchesOf, kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf } from '../support/audit.ts';
import { testFolder } from '../support/test-folder.ts';
import { until } from '../support/until.ts';
import { said, untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const AGENT = fileURLToPath(new URL('../support/agents/three-questions.ts', import.meta.url));
const BY = { by: 'Ana', reason: 'too dear' };
/** Longer than any test: a slot that sits it out was not told. */
const LONG_WAIT = { 'retry-after': '30' };

async function asOperator<T>(work: (client: Awaited<ReturnType<typeof openClient>>) => Promise<T>): Promise<T> {
  const client = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

const givenBack = (batch: string) =>
  until('the task is given back', async () => (await taskOf(bench.db, batch)).state === 'pending');

/** A worker whose only slot waits to try a refused call again. */
async function waitingAfterRefusal(): Promise<string> {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.script = (exchange) => exchange.refuse(529, 'overloaded_error', LONG_WAIT);
  bench.processes.worker('host-a/1', batch);
  await until('the refusal is recorded', async () => (await kindsOf(bench.db, batch))[0] === '1.1 refused');
  return batch;
}

/** A worker that has committed its first intent, and does not get on to sending it until `open` is called. */
async function atTheGate() {
  const gate = join(testFolder(), 'gate');
  writeFileSync(gate, '');
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  const at = 'journal.intent.after';
  const worker = bench.processes.worker('host-a/1', batch, {
    environment: { MADRUGADA_FAILPOINT: `${at}:create(${gate}.reached)@1,${at}:gate(${gate})@1` },
  });
  await until('the intent is committed', () => existsSync(`${gate}.reached`));
  return { batch, worker, open: () => rmSync(gate) };
}

/** A worker whose first call is in flight. */
async function inFlight() {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.hold();
  const worker = bench.processes.worker('host-a/1', batch);
  return { batch, worker, exchange: await bench.provider.arrival(1) };
}

test('a slot that waits to try a refused call again gives its task back when its batch is stopped', async () => {
  const batch = await waitingAfterRefusal();
  await asOperator((client) => stopBatch(client, batch, BY));
  await givenBack(batch);

  expect(await attemptsOf(bench.db, batch)).toMatchObject([
    { ending: 'stopped', error: `batch ${batch} is stopped: too dear` },
  ]);
});

test('a slot that waits to try a refused call again gives its task back when everything is stopped', async () => {
  const batch = await waitingAfterRefusal();
  await asOperator((client) => stopEverything(client, BY));
  await givenBack(batch);
  await liftStop(bench.db);

  expect(await attemptsOf(bench.db, batch)).toMatchObject([{ ending: 'stopped', error: 'everything is stopped' }]);
});

test('a worker that could not hear of a stop finds it when its connection is back', async () => {
  const batch = await waitingAfterRefusal();
  await bench.db.pool.query(
    `UPDATE madrugada.batch SET state = 'stopped', stop_reason = 'unheard' WHERE batch_key = $1`,
    [batch],
  );
  await bench.db.pool.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name ~ '^madrugada/w[0-9]+/slots$'`,
  );
  await givenBack(batch);

  expect(await attemptsOf(bench.db, batch)).toMatchObject([{ ending: 'stopped' }]);
});

test('a call that is recorded and not yet sent when the stop comes is not sent, and that is recorded', async () => {
  const { batch, worker, open } = await atTheGate();
  await asOperator((client) => stopBatch(client, batch, BY));
  await said(worker, 'stopped: nothing more is sent');
  open();
  await givenBack(batch);

  expect(bench.provider.requestCount).toBe(0);
  expect(await dispatchesOf(bench.db, batch)).toMatchObject([
    { kind: 'not_sent', error: `batch ${batch} is stopped: too dear` },
  ]);
});

test('a call that a stop kept from being sent is sent when the batch is resumed', async () => {
  const { batch, worker, open } = await atTheGate();
  await asOperator((client) => stopBatch(client, batch, BY));
  await said(worker, 'stopped: nothing more is sent');
  open();
  await givenBack(batch);
  await asOperator((client) => resumeBatch(client, batch, BY));
  await untilDone(bench.db, batch);

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 not_sent', '1.2 charged', '2.1 charged', '3.1 charged']);
});

test('a task is given back only when the answer in flight is recorded, whole', async () => {
  const { batch, worker, exchange } = await inFlight();
  await asOperator((client) => stopBatch(client, batch, BY));
  await said(worker, 'stopped: nothing more is sent');
  const { state } = await taskOf(bench.db, batch);
  exchange.message();
  await givenBack(batch);

  expect(state).toBe('running');
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('a stop of a batch that is not to wait breaks off what is in flight, and leaves it in doubt', async () => {
  const { batch, exchange } = await inFlight();
  await asOperator((client) => stopBatch(client, batch, { ...BY, now: true }));
  await exchange.closed;
  await givenBack(batch);

  expect(await dispatchesOf(bench.db, batch)).toMatchObject([
    { kind: 'unknown', error: 'broken off: a person has stopped what was in flight' },
  ]);
  const { rows } = await bench.db.pool.query('SELECT FROM madrugada.audit_in_doubt WHERE batch_key = $1', [batch]);
  expect(rows).toHaveLength(1);
});

test('what an earlier stop waits for is broken off by one that is not to wait', async () => {
  const { batch, worker, exchange } = await inFlight();
  await asOperator((client) => stopBatch(client, batch, BY));
  await said(worker, 'stopped: nothing more is sent');
  await asOperator((client) => stopEverything(client, { ...BY, now: true }));
  await exchange.closed;
  await givenBack(batch);
  await liftStop(bench.db);

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
});

/** Ends the connection on which workers hear of things, keeps it down, and lets `work` use one that is up. */
async function unheard(work: (client: Client) => Promise<unknown>): Promise<void> {
  const { url, name } = bench.db;
  const client = await openClient({ url, as: 'operator', applicationName: 'madrugada test' });
  const elsewhere = await openClient({ url: new URL('/postgres', url).href, applicationName: 'madrugada test' });
  const listener = `datname = '${name}' AND application_name ~ '^madrugada/w[0-9]+/slots$'`;
  try {
    await elsewhere.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    await elsewhere.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${listener}`);
    await until('nobody listens', async () => {
      const { rows } = await elsewhere.query(`SELECT FROM pg_stat_activity WHERE ${listener}`);
      return rows.length === 0;
    });
    await work(client);
  } finally {
    await elsewhere.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    await elsewhere.end();
    await client.end();
  }
}

test('a worker that could not hear of a stop that is not to wait breaks off what is in flight while it still hears nothing', async () => {
  const { batch, exchange } = await inFlight();
  await unheard(async (client) => {
    await stopBatch(client, batch, { ...BY, now: true });
    await exchange.closed;
  });
  await givenBack(batch);

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
});

test('a worker that had heard of a stop, and could not hear that it is not to wait, breaks off what is in flight', async () => {
  const { batch, worker, exchange } = await inFlight();
  await asOperator((client) => stopBatch(client, batch, BY));
  await said(worker, 'stopped: nothing more is sent');
  await unheard(async (client) => {
    await stopEverything(client, { ...BY, now: true });
    await exchange.closed;
  });
  await givenBack(batch);
  await liftStop(bench.db);

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
});

test('a batch that is resumed after a stop that did not wait sends again, and a later stop waits for it', async () => {
  const { batch, worker } = await inFlight();
  await asOperator((client) => stopBatch(client, batch, { ...BY, now: true }));
  await givenBack(batch);
  await asOperator((client) => resumeBatch(client, batch, BY));
  const again = await bench.provider.arrival(2);
  await asOperator((client) => stopBatch(client, batch, { ...BY, reason: 'still too dear' }));
  await said(worker, `batch ${batch} is stopped: still too dear`);
  again.message();
  await givenBack(batch);

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown', '1.2 charged']);
});

test('the audit trail has who would not wait, and why', async () => {
  const { batch } = await inFlight();
  await asOperator((client) => stopBatch(client, batch, { ...BY, now: true }));
  await asOperator((client) => stopEverything(client, { ...BY, now: true }));
  await givenBack(batch);
  await liftStop(bench.db);
  const { rows } = await bench.db.pool.query(
    `SELECT subject, event, reason, by_name FROM madrugada.audit_event WHERE event = 'cut off' AND (batch_key = $1 OR batch_key IS NULL)
      ORDER BY id DESC LIMIT 2`,
    [batch],
  );

  expect(rows).toEqual([
    { subject: 'stop', event: 'cut off', reason: 'too dear', by_name: 'Ana' },
    { subject: 'batch', event: 'cut off', reason: 'too dear', by_name: 'Ana' },
  ]);
});

test('a stop of one batch that is not to wait leaves the calls of another in flight', async () => {
  const { batch } = await inFlight();
  const other = await loadTestBatch(bench.db, { agent: AGENT });
  bench.processes.worker('host-b/1', other);
  const exchange = await bench.provider.arrival(2);
  await asOperator((client) => stopBatch(client, batch, { ...BY, now: true }));
  await givenBack(batch);
  bench.provider.script = (exchange) => exchange.message();
  exchange.message();
  await untilDone(bench.db, other);

  expect(await kindsOf(bench.db, other)).toEqual(['1.1 charged', '2.1 charged', '3.1 charged']);
});

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { openAlerts } from '../../src/batch/alerts.ts';
import { resumeBatch, stopBatch } from '../../src/batch/change-batch.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { liftStop } from '../support/as-person.ts';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf } from '../support/audit.ts';
import { testFolder } from '../support/test-folder.ts';
import { until } from '../support/until.ts';
import { said, untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const agent = (name: string) => fileURLToPath(new URL(`../support/agents/${name}`, import.meta.url));
const AGENT = agent('three-questions.ts');
const BY = { by: 'Ana', reason: 'too dear' };

/** What a person does, over an operator's connection. */
async function asOperator<T>(work: (client: Awaited<ReturnType<typeof openClient>>) => Promise<T>): Promise<T> {
  const client = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

async function batchOf(batchKey: string): Promise<{ state: string; stop_reason: string | null }> {
  const { rows } = await bench.db.pool.query('SELECT state, stop_reason FROM madrugada.batch WHERE batch_key = $1', [
    batchKey,
  ]);
  return rows[0];
}

/** A batch that a person stops while its first call is in flight, and whose worker has given its task back. */
async function stoppedAtFirstCall(stop: (batch: string) => Promise<unknown>): Promise<string> {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.hold();
  bench.processes.worker('host-a/1', batch);
  const exchange = await bench.provider.arrival(1);
  await stop(batch);
  bench.provider.script = (exchange) => exchange.message();
  exchange.message();
  await until('the task is given back', async () => (await taskOf(bench.db, batch)).state === 'pending');
  return batch;
}

const stopIt = (batch: string) => asOperator((client) => stopBatch(client, batch, BY));
const stopEverything = () =>
  asOperator((client) => client.query(`SELECT madrugada.stop_everything('everything is too dear')`));

test('a batch that a person stops pays for no further call; the one in flight is recorded', async () => {
  const batch = await stoppedAtFirstCall(stopIt);

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
  expect(bench.provider.requestCount).toBe(1);
  expect(await attemptsOf(bench.db, batch)).toMatchObject([
    { ending: 'stopped', error: `batch ${batch} is stopped: too dear` },
  ]);
});

test('a stop uses up no attempt', async () => {
  expect((await taskOf(bench.db, await stoppedAtFirstCall(stopIt))).attempts).toBe(0);
});

test('a batch that a person resumes goes on by itself: the recorded call is replayed, the rest is paid', async () => {
  const batch = await stoppedAtFirstCall(stopIt);
  await asOperator((client) => resumeBatch(client, batch, BY));
  await untilDone(bench.db, batch);

  expect((await attemptsOf(bench.db, batch)).map(({ ending, replayed }) => `${ending} ${replayed}`)).toEqual([
    'stopped 0',
    'completed 1',
  ]);
  expect(bench.provider.requestCount).toBe(3);
});

test('a stop of everything is looked at before each paid call, too, and lifted by a person', async () => {
  const batch = await stoppedAtFirstCall(stopEverything);
  const paid = bench.provider.requestCount;
  await liftStop(bench.db);
  await until('the batch is done', async () => (await taskOf(bench.db, batch)).state === 'completed');

  expect(paid).toBe(1);
  expect(await attemptsOf(bench.db, batch)).toMatchObject([
    { ending: 'stopped', error: 'everything is stopped' },
    { ending: 'completed', replayed: 1 },
  ]);
});

for (const [file, why] of [
  ['broken/throws.ts', /cannot be loaded: this module cannot be loaded/],
  ['broken/no-default.ts', /its default export must be defineAgent/],
] as const)
  test(`an agent such as ${file} stops its batch with the reason, and no other batch`, async () => {
    const batch = await loadTestBatch(bench.db, { agent: agent(file) });
    const healthy = await loadTestBatch(bench.db);
    const worker = bench.processes.worker('host-a/1', undefined);
    await untilDone(bench.db, healthy);
    await said(worker, 'the agent cannot be loaded; its batch is stopped');

    expect(await batchOf(batch)).toEqual({ state: 'stopped', stop_reason: expect.stringMatching(why) });
    expect(await openAlerts(bench.db.pool)).toContainEqual(expect.objectContaining({ kind: 'agent', batchKey: batch }));
    expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0 });
  });

test('a worker delivers the alert of the batch that it has stopped', async () => {
  const file = join(testFolder(), 'alert');
  const batch = await loadTestBatch(bench.db, { agent: agent('broken/throws.ts') });
  bench.processes.worker('host-a/1', batch, { environment: { MADRUGADA_ALERT_COMMAND: `grep '${batch}' > ${file}` } });
  await until('the alert is delivered', () => existsSync(file) && readFileSync(file, 'utf8') !== '');

  expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ kind: 'agent', batch });
});

test('an agent that cannot be loaded is said before the night begins: nothing is started, nothing changed', async () => {
  const batch = await loadTestBatch(bench.db, { agent: agent('broken/throws.ts') });
  const { code, stderr } = await bench.processes.night(batch).result;

  expect(code).toBe(2);
  expect(stderr).toMatch(/cannot be loaded: this module cannot be loaded/);
  expect((await batchOf(batch)).state).toBe('open');
});

/** A module of a test's own that can be changed. */
function ownAgent(code: string): { path: string; change(code: string): void } {
  const path = join(testFolder(), 'agent.ts');
  writeFileSync(path, code);
  return { path, change: (code) => writeFileSync(path, code) };
}
const LIKE_AGENT = `export { default } from ${JSON.stringify(AGENT)};`;

test('an agent that is mended is loaded anew by the same worker when its batch is resumed', async () => {
  const own = ownAgent(`throw new Error('not yet');`);
  const batch = await loadTestBatch(bench.db, { agent: own.path });
  bench.processes.worker('host-a/1', batch);
  await until('the batch is stopped', async () => (await batchOf(batch)).state === 'stopped');
  own.change(LIKE_AGENT);
  await asOperator((client) => resumeBatch(client, batch, BY));
  await until('the task is completed', async () => (await taskOf(bench.db, batch)).state === 'completed');
});

test('a change of the agent between two attempts is noted with them, and said', async () => {
  const own = ownAgent(LIKE_AGENT);
  const batch = await loadTestBatch(bench.db, { agent: own.path });
  bench.provider.script = (exchange) => (exchange.number === 2 ? undefined : exchange.message());
  const first = bench.processes.worker('first', batch);
  await bench.provider.arrival(2);
  first.process.kill('SIGKILL');
  await first.result;
  own.change(`${LIKE_AGENT} // in another state`);
  const second = bench.processes.worker('second', batch);
  await untilDone(bench.db, batch);
  const { rows } = await bench.db.pool.query(
    'SELECT agent_sha256 FROM madrugada.attempt a JOIN madrugada.task t ON t.id = a.task_id WHERE batch_key = $1',
    [batch],
  );

  expect(new Set(rows.map(({ agent_sha256 }) => agent_sha256)).size).toBe(2);
  await said(second, 'the agent has changed since the last attempt');
});

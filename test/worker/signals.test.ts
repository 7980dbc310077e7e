import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf, endingsOf, taskEvents } from '../support/audit.ts';
import type { RunningCommand } from '../support/command.ts';
import { moveClock } from '../support/move-clock.ts';
import { testFolder } from '../support/test-folder.ts';
import { until } from '../support/until.ts';
import { said, untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const AGENT = fileURLToPath(new URL('../support/agents/three-questions.ts', import.meta.url));
const ANSWERS = ['answer to one', 'answer to two', 'answer to three'];

/** A worker with its first call in flight. */
async function atFirstCall(): Promise<{ batch: string; worker: RunningCommand }> {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.hold();
  const worker = bench.processes.worker('first', batch);
  await bench.provider.arrival(1);
  return { batch, worker };
}

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  test(`${signal} gives a task back once its call in flight is recorded, without using up an attempt`, async () => {
    const { batch, worker } = await atFirstCall();
    worker.process.kill(signal);
    await said(worker, 'stopping');
    (await bench.provider.arrival(1)).message();

    expect((await worker.result).code).toBe(130);
    expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
    expect(await attemptsOf(bench.db, batch)).toMatchObject([{ ending: 'released', error: `stopped by ${signal}` }]);
    expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0 });
    const { rows } = await bench.db.pool.query(
      `SELECT a.ended_at >= o.received_at AS after FROM madrugada.attempt a JOIN madrugada.call_outcome o USING (task_id) WHERE o.batch_key = $1`,
      [batch],
    );
    expect(rows).toEqual([{ after: true }]);
  });

test('what a stopped worker had recorded is replayed by the next, and only the rest is paid', async () => {
  const { batch, worker } = await atFirstCall();
  worker.process.kill('SIGTERM');
  await said(worker, 'stopping');
  (await bench.provider.arrival(1)).message();
  await worker.result;
  bench.provider.script = (exchange) => exchange.message();
  bench.processes.worker('second', batch);
  await untilDone(bench.db, batch);

  expect((await attemptsOf(bench.db, batch)).map(({ replayed }) => replayed)).toEqual([0, 1]);
  expect(bench.provider.requestCount).toBe(3);
});

test('a second SIGTERM ends at once with 130; the call in flight stays in doubt', async () => {
  const { batch, worker } = await atFirstCall();
  worker.process.kill('SIGTERM');
  await said(worker, 'stopping');
  worker.process.kill('SIGTERM');

  expect((await worker.result).code).toBe(130);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 -']);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('a supervisor that is killed takes no work with it: its worker gives its task back and ends', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.hold();
  const night = bench.processes.night(batch, { environment: { MADRUGADA_LOG: 'info' } });
  const exchange = await bench.provider.arrival(1);
  night.process.kill('SIGKILL');
  await said(night, 'its supervisor is gone');
  exchange.message();
  await night.result; // its output is closed when the worker, too, has ended

  expect(await attemptsOf(bench.db, batch)).toMatchObject([{ ending: 'released', error: 'its supervisor is gone' }]);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('Ctrl-C gives the whole night’s work back; the next run goes on where it was', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  bench.provider.hold();
  const night = bench.processes.night(batch, { environment: { MADRUGADA_LOG: 'info' } });
  const exchange = await bench.provider.arrival(1);
  process.kill(-(night.process.pid ?? 0), 'SIGINT'); // a terminal signals the whole group
  await said(night, 'stopped by SIGTERM'); // the supervisor alone decides, and tells its workers
  exchange.message();
  const { code, stdout } = await night.result;
  bench.provider.script = (exchange) => exchange.message();
  const second = await bench.processes.night(batch).result;

  expect([code, second.code]).toEqual([130, 0]);
  expect(JSON.parse(stdout)).toMatchObject({ interrupted: true, completed: 0, pending: 1, calls: 1 });
  expect(JSON.parse(second.stdout)).toMatchObject({ interrupted: false, completed: 1, calls: 2, replayed: 1 });
  expect((await taskOf(bench.db, batch)).result).toEqual(ANSWERS);
});

test('a worker that stood still past its lease, between two calls, has lost its task to another slot; nothing is paid twice', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  const folder = testFolder();
  const [stopped, reached, gate] = ['stopped', 'reached', 'gate'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(gate, '');
  const frozen = bench.processes.worker('frozen', batch, {
    environment: { MADRUGADA_FAILPOINT: `journal.outcome.after:stop(${stopped})@1` },
  });
  await until('the first worker stands still', () => existsSync(stopped));
  await moveClock(bench.db, '11 minutes');
  bench.processes.worker('other', batch, {
    environment: {
      MADRUGADA_FAILPOINT: `journal.intent.before:create(${reached})@1,journal.intent.before:gate(${gate})@1`,
    },
  });
  await until('the other is about to make the second call', () => existsSync(reached));
  frozen.process.kill('SIGCONT');
  await said(frozen, '"ending":"lost"'); // while the other holds the task and has sent nothing yet
  rmSync(gate);
  await untilDone(bench.db, batch);
  await moveClock(bench.db, '-11 minutes');

  expect(await endingsOf(bench.db, batch)).toEqual(['frozen lost', 'other completed']);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged', '2.1 charged', '3.1 charged']);
  expect(bench.provider.requestCount).toBe(3);
  expect((await taskOf(bench.db, batch)).result).toEqual(ANSWERS);
});

test('the answer that a frozen worker had under way is waited for and used by the slot that took over', async () => {
  const batch = await loadTestBatch(bench.db, { agent: AGENT, leaseSeconds: 60 });
  bench.provider.hold();
  const frozen = bench.processes.worker('frozen', batch);
  const exchange = await bench.provider.arrival(1);
  frozen.process.kill('SIGSTOP');
  await moveClock(bench.db, '2 minutes'); // past the lease, not past the deadline of the call
  bench.processes.worker('other', batch);
  await until('the other slot waits', async () => (await taskOf(bench.db, batch)).waiting_for === 'doubt');
  bench.provider.script = (exchange) => exchange.message();
  exchange.message();
  frozen.process.kill('SIGCONT');
  await untilDone(bench.db, batch);
  await moveClock(bench.db, '-2 minutes');

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged', '2.1 charged', '3.1 charged']);
  expect(bench.provider.requestCount).toBe(3);
  expect((await taskEvents(bench.db, batch)).filter(({ event }) => event === 'completed')).toHaveLength(1);
});

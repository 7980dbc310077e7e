import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { type RunningCommand, startCommand } from '../support/command.ts';
import { journalBench } from '../support/journal-bench.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { until } from '../support/until.ts';

const bench = journalBench();
const AGENT = fileURLToPath(new URL('../support/agents/three-questions.ts', import.meta.url));

const started: RunningCommand[] = [];
afterAll(() => {
  for (const { process } of started) process.kill('SIGKILL'); // what a failed test left behind
});

/** A worker process of its own, to be killed. */
function startWorker(batch: string, slot: string, providerUrl: string, failpoint = ''): RunningCommand {
  const worker = startCommand(['worker', '--slot', slot, '--batch', batch], {
    environment: { DATABASE_URL: bench.db.url, ANTHROPIC_BASE_URL: providerUrl, MADRUGADA_FAILPOINT: failpoint },
  });
  started.push(worker);
  return worker;
}

async function stop({ process, result }: RunningCommand): Promise<void> {
  process.kill('SIGTERM');
  await result;
}

/** What the second call of three leaves behind when its process dies at a point, and what it then costs. */
const deaths = [
  {
    at: 'journal.intent.before:kill@2',
    when: 'before the second intent is written',
    journal: ['1.1 charged', '2.1 charged', '3.1 charged'],
    requests: 3,
  },
  {
    at: 'journal.intent.after:kill@2',
    when: 'between the second intent’s commit and its request',
    journal: ['1.1 charged', '2.1 -', '2.2 charged', '3.1 charged'],
    requests: 3,
  },
  {
    at: 'journal.outcome.before:kill@2',
    when: 'with the second answer received and not recorded',
    journal: ['1.1 charged', '2.1 -', '2.2 charged', '3.1 charged'],
    requests: 4,
  },
  {
    at: 'journal.group.after:kill@4',
    when: 'with the second answer recorded and not yet known to be',
    journal: ['1.1 charged', '2.1 charged', '3.1 charged'],
    requests: 3,
  },
  {
    at: 'journal.outcome.after:kill@3',
    when: 'with every answer recorded and the task not completed',
    journal: ['1.1 charged', '2.1 charged', '3.1 charged'],
    requests: 3,
  },
];

for (const { at, when, journal, requests } of deaths)
  test.concurrent(`a worker killed ${when} pays ${requests} requests for three calls, and its task is completed`, async () => {
    const provider = await startScriptedProvider();
    const batch = await loadTestBatch(bench.db, { agent: AGENT });
    const first = startWorker(batch, `${batch}/1`, provider.url, at);
    expect((await first.result).signal).toBe('SIGKILL');
    const second = startWorker(batch, `${batch}/2`, provider.url);
    await until('the task is completed', async () => (await taskOf(bench.db, batch)).state === 'completed');
    await stop(second);
    await provider.close();

    expect(await kindsOf(bench.db, batch)).toEqual(journal);
    expect(provider.requestCount).toBe(requests);
    expect((await taskOf(bench.db, batch)).result).toEqual(['answer to one', 'answer to two', 'answer to three']);
    const { rows } = await bench.db.pool.query(
      'SELECT seq, dispatch FROM madrugada.audit_in_doubt WHERE batch_key = $1',
      [batch],
    );
    expect(rows).toEqual(journal.includes('2.1 -') ? [{ seq: 2, dispatch: 1 }] : []);
  });

test('a task parked for a doubt is woken when the death of the sender is proven, long before its deadline', async () => {
  const provider = await startScriptedProvider();
  const batch = await loadTestBatch(bench.db, { agent: AGENT });
  provider.hold();
  const first = startWorker(batch, 'first', provider.url);
  await provider.arrival(1);
  const { id } = await taskOf(bench.db, batch);
  await bench.db.pool.query('SELECT madrugada.lose_attempts(ARRAY[$1::bigint], $2)', [id, 'by the test']);
  const second = startWorker(batch, 'second', provider.url);
  await until('the task is parked', async () => (await taskOf(bench.db, batch)).waiting_for === 'doubt');
  provider.script = (exchange) => exchange.message();
  first.process.kill('SIGKILL');
  await until('the task is completed', async () => (await taskOf(bench.db, batch)).state === 'completed');
  await stop(second);
  await provider.close();

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 -', '1.2 charged', '2.1 charged', '3.1 charged']);
});

test('a rejection that an agent leaves unhandled does not take the worker, and its other tasks, down', async () => {
  const provider = await startScriptedProvider();
  const batch = await loadTestBatch(bench.db, {
    agent: fileURLToPath(new URL('../support/agents/forgetful.ts', import.meta.url)),
  });
  provider.script = async (exchange) => {
    if (exchange.prompt === 'fired') return exchange.refuse(400, 'invalid_request_error');
    await until('the other call is refused', async () => (await kindsOf(bench.db, batch)).includes('1.1 refused'));
    exchange.message();
  };
  const worker = startWorker(batch, 'forgetful', provider.url);
  await until('the task is completed', async () => (await taskOf(bench.db, batch)).state === 'completed');
  await stop(worker);
  await provider.close();

  const { stderr } = await worker.result;
  expect(stderr).toContain('unhandled');
  expect((await taskOf(bench.db, batch)).attempts).toBe(1);
});

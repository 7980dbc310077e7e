import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { endingsOf } from '../support/audit.ts';
import { moveClock } from '../support/move-clock.ts';
import { testFolder } from '../support/test-folder.ts';
import { until } from '../support/until.ts';
import { untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const AGENT = fileURLToPath(new URL('../support/agents/obstructed.ts', import.meta.url));
const THREE_QUESTIONS = fileURLToPath(new URL('../support/agents/three-questions.ts', import.meta.url));

/** A batch whose first agent run meets an obstacle. */
async function obstructed(obstacle: 'spin' | 'wait', options: { tasks?: number; leaseSeconds?: number } = {}) {
  const folder = testFolder();
  const [mark, gate] = [join(folder, 'mark'), join(folder, 'gate')];
  writeFileSync(gate, '');
  const batch = await loadTestBatch(bench.db, { agent: AGENT, agentOptions: { obstacle, mark, gate }, ...options });
  return {
    batch,
    reached: () => until('the obstacle is reached', () => existsSync(mark)),
    open: () => rmSync(gate),
  };
}

async function leaseEnd(batch: string): Promise<number> {
  const { rows } = await bench.db.pool.query<{ at: Date | null }>(
    'SELECT lease_expires_at AS at FROM madrugada.task WHERE batch_key = $1',
    [batch],
  );
  return rows[0]?.at?.getTime() ?? 0;
}

test('the lease of a main thread that computes for long is extended all the while', async () => {
  const { batch, reached, open } = await obstructed('spin');
  bench.processes.worker('busy', batch);
  await reached();
  const first = await leaseEnd(batch);
  for (const minutes of [5, 5, 5]) {
    const before = await leaseEnd(batch);
    await moveClock(bench.db, `${minutes} minutes`);
    await until('the lease is extended', async () => (await leaseEnd(batch)) > before);
  }
  const last = await leaseEnd(batch);
  open();
  await untilDone(bench.db, batch);
  await moveClock(bench.db, '-15 minutes');

  expect(last - first).toBeGreaterThan(14 * 60_000);
  expect(await endingsOf(bench.db, batch)).toEqual(['busy completed']);
});

test('an event loop that hangs loses its lease; another slot goes on, and nothing is paid twice', async () => {
  const { batch, reached, open } = await obstructed('spin', { leaseSeconds: 3 });
  const hung = bench.processes.worker('hung', batch, { environment: { MADRUGADA_HUNG_SECONDS: '1' } });
  await reached();
  bench.processes.worker('other', batch);
  await untilDone(bench.db, batch);
  open();
  await bench.processes.stop(hung);

  expect(await endingsOf(bench.db, batch)).toEqual(['hung lost', 'other completed']);
  expect(bench.provider.exchanges.map(({ prompt }) => prompt)).toEqual(['question 1, before', 'question 1, after']);
  expect((await taskOf(bench.db, batch)).result).toEqual([
    'answer to question 1, before',
    'answer to question 1, after',
  ]);
});

test('a call that is refused again and again for longer than a slot may stand still keeps its lease', async () => {
  const batch = await loadTestBatch(bench.db, { agent: THREE_QUESTIONS, leaseSeconds: 3 });
  bench.provider.script = (exchange) =>
    exchange.number <= 10 ? exchange.refuse(500, 'api_error', { 'retry-after': '1' }) : exchange.message();
  bench.processes.worker('patient', batch, {
    environment: { MADRUGADA_STUCK_SECONDS: '4', MADRUGADA_MAX_DISPATCHES: '20' },
  });
  await untilDone(bench.db, batch);

  expect(await endingsOf(bench.db, batch)).toEqual(['patient completed']);
});

test('an agent that waits for ever loses its lease, and its slot takes the next task', async () => {
  const { batch, reached } = await obstructed('wait', { leaseSeconds: 3, tasks: 2 });
  bench.processes.worker('stuck', batch, { environment: { MADRUGADA_STUCK_SECONDS: '1' } });
  await reached();
  await untilDone(bench.db, batch);

  expect((await endingsOf(bench.db, batch)).toSorted()).toEqual(['stuck completed', 'stuck completed', 'stuck lost']);
});

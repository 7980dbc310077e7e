import { expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../src/postgres/connect.ts';
import { SlotLocks } from '../../src/worker/slot-locks.ts';
import { WakeUp } from '../../src/worker/wake-up.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { release, takeAway } from '../support/leases.ts';
import { until } from '../support/until.ts';

const bench = leaseBench();
/** Longer than any test: whoever wakes was woken. */
const FOR_EVER_MS = 1_000_000;

/** The slots' connection of a worker, whose idle slots sleep until it hears of work. */
async function listening(slot: string) {
  const wakeUp = new WakeUp();
  const taken: string[] = [];
  const locks = new SlotLocks(
    () => openClient({ url: bench.db.url, as: 'worker', applicationName: `test/${slot}` }),
    [slot],
    new Map([['madrugada_work', () => wakeUp.wakeAll()]]),
    (name) => taken.push(name),
  );
  onTestFinished(() => locks.close());
  await locks.take();
  return { wakeUp, taken, woken: () => wakeUp.wait(FOR_EVER_MS, wakeUp.calls) };
}

test('a batch that is loaded wakes idle slots', async () => {
  const woken = (await listening('loaded')).woken();
  await loadTestBatch(bench.db);
  await woken;
});

test('a batch that is resumed wakes idle slots', async () => {
  const batch = await loadTestBatch(bench.db);
  await bench.db.pool.query(`SELECT madrugada.stop_batch($1, 'by the test')`, [batch]);
  const woken = (await listening('resumed')).woken();
  await bench.db.pool.query('SELECT madrugada.resume_batch($1)', [batch]);
  await woken;
});

test('a task that is given back wakes idle slots', async () => {
  const { lease } = await bench.worker.claim(await loadTestBatch(bench.db));
  const woken = (await listening('given-back')).woken();
  await release(bench.db, lease);
  await woken;
});

test('a task whose worker is lost wakes idle slots', async () => {
  const { lease } = await bench.worker.claim(await loadTestBatch(bench.db));
  const woken = (await listening('lost')).woken();
  await takeAway(bench.db, lease.taskId);
  await woken;
});

test('a task that a person retries wakes idle slots', async () => {
  const batch = await loadTestBatch(bench.db, { maxAttempts: 1 });
  const { lease } = await bench.worker.claim(batch);
  await takeAway(bench.db, lease.taskId);
  const woken = (await listening('retried')).woken();
  await bench.db.pool.query(
    `SELECT set_config('madrugada.by', 'Ana', false), set_config('madrugada.reason', 'seen', false), madrugada.retry_task($1, NULL)`,
    [lease.taskId],
  );
  await woken;
});

test('slots that lost their connection are woken when they listen again: what was notified meanwhile went unheard', async () => {
  const { woken, taken } = await listening('cut');
  const awake = woken();
  await bench.db.pool.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'test/cut'`,
  );
  await awake;
  expect(taken).toEqual([]);
});

test('a call that came before a slot lay down is not slept through', async () => {
  const wakeUp = new WakeUp();
  const heard = wakeUp.calls;
  wakeUp.wakeAll();
  await wakeUp.wait(FOR_EVER_MS, heard);
});

test('a call wakes every slot that waits, and not the one that lies down after it', async () => {
  const wakeUp = new WakeUp();
  const both = [wakeUp.wait(FOR_EVER_MS, wakeUp.calls), wakeUp.wait(FOR_EVER_MS, wakeUp.calls)];
  wakeUp.wakeAll();
  await Promise.all(both);
  let isAwake = false;
  const later = wakeUp.wait(FOR_EVER_MS, wakeUp.calls).then(() => {
    isAwake = true;
  });
  await new Promise(setImmediate);
  expect(isAwake).toBe(false);
  wakeUp.wakeAll();
  await later;
});

test('a slot that is not called wakes by itself after its while', async () => {
  const wakeUp = new WakeUp();
  await wakeUp.wait(1, wakeUp.calls);
});

test('a slot’s lock is free again when its process closes it', async () => {
  const [first, second] = [0, 1].map(
    () =>
      new SlotLocks(
        () => openClient({ url: bench.db.url, as: 'worker', applicationName: 'test/closed' }),
        ['closed'],
        new Map(),
        () => undefined,
      ),
  ) as [SlotLocks, SlotLocks];
  await first.take();
  await expect(second.take()).rejects.toThrow(/slot closed is held by another process/);
  await second.close();
  await first.close();
  await until('the lock is free', async () => {
    const { rows } = await bench.db.pool.query(
      `SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    );
    return rows.length === 0;
  });
});

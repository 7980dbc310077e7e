import { expect, test } from 'vitest';
import type { Lease } from '../../src/journal/lease.ts';
import { type Ending, endAttempt } from '../../src/lease/finish.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { attemptsOf, passages } from '../support/audit.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { completeTask, holderOf, release, takeAway } from '../support/leases.ts';
import { moveClock } from '../support/move-clock.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { rowLockWait } from '../support/row-lock-wait.ts';

const bench = leaseBench();

const complete = (lease: Lease, answer: unknown = 'answer') =>
  completeTask(bench.worker.pool, holderOf(lease), answer, 0);

function end(lease: Lease, differing: Partial<Ending> = {}) {
  const ending: Ending = {
    how: 'failed',
    failure: { kind: 'agent', message: 'no answer' },
    final: false,
    waitUntil: undefined,
    waitingFor: undefined,
    ...differing,
  };
  return endAttempt(bench.worker.pool, holderOf(lease), ending, 0);
}

/** Leases that are not the current one although they resemble it. */
const strangers: [string, (lease: Lease) => Lease | Promise<Lease>][] = [
  ['an older token', (lease) => ({ ...lease, token: lease.token - 1 })],
  ['a token not yet given out', (lease) => ({ ...lease, token: lease.token + 1 })],
  [
    'another worker under the same slot’s name',
    async (lease) => ({ ...lease, workerId: (await bench.workers.add()).id }),
  ],
];

/** A task in its second attempt. */
async function held(): Promise<{ batch: string; lease: Lease }> {
  const batch = await loadTestBatch(bench.db);
  await release(bench.db, (await bench.worker.claim(batch)).lease);
  return { batch, lease: (await bench.worker.claim(batch)).lease };
}

for (const [who, of] of strangers) {
  test(`${who} cannot complete a task`, async () => {
    const { batch, lease } = await held();
    expect(await complete(await of(lease))).toBe(false);
    expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'running', result: null });
  });

  test(`${who} cannot give a task back`, async () => {
    const { batch, lease } = await held();
    expect(await end(await of(lease), { how: 'released' })).toBeUndefined();
    expect((await taskOf(bench.db, batch)).state).toBe('running');
  });

  test(`${who} cannot fail a task`, async () => {
    const { batch, lease } = await held();
    expect(await end(await of(lease), { final: true })).toBeUndefined();
    expect((await taskOf(bench.db, batch)).state).toBe('running');
  });
}

test('answer and completed are written together, with the end of the attempt and one audit row', async () => {
  const { batch, lease } = await held();
  expect(await complete(lease, { text: 'x' })).toBe(true);
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'completed', result: { text: 'x' } });
  expect((await attemptsOf(bench.db, batch)).at(-1)).toMatchObject({ ending: 'completed' });
  expect(await passages(bench.db, batch)).toEqual(['claimed', 'resumed', 'claimed', 'completed']);
});

test('a completion that is rolled back leaves neither answer nor attempt nor audit row', async () => {
  const { batch, lease } = await held();
  const completing = await openTransaction(bench.db);
  await completing.client.query(`SELECT madrugada.complete_task($1, $2, $3, '1', 0)`, [
    lease.taskId,
    bench.worker.id,
    lease.token,
  ]);
  await completing.rollback();

  expect((await taskOf(bench.db, batch)).state).toBe('running');
  expect((await attemptsOf(bench.db, batch)).at(-1)?.ending).toBeNull();
  expect(await passages(bench.db, batch)).toEqual(['claimed', 'resumed', 'claimed']);
});

test('a completion whose first commit was not seen is repeated without harm', async () => {
  const { batch, lease } = await held();
  await complete(lease, 'first');
  expect(await complete(lease, 'second')).toBe(true);
  expect((await taskOf(bench.db, batch)).result).toBe('first');
  expect((await passages(bench.db, batch)).filter((event) => event === 'completed')).toHaveLength(1);
});

test('a task whose lease has run out cannot be completed, though nobody has taken it yet', async () => {
  const { batch, lease } = await held();
  await moveClock(bench.db, '11 minutes');
  const done = await complete(lease);
  await moveClock(bench.db, '-11 minutes');

  expect(done).toBe(false);
  expect((await taskOf(bench.db, batch)).state).toBe('running');
});

test('an answer that comes after a takeover changes nothing', async () => {
  const { batch, lease } = await held();
  await takeAway(bench.db, lease.taskId);
  const taker = await bench.workers.add();
  const second = await taker.claim(batch);
  expect(await complete(lease, 'late')).toBe(false);
  await completeTask(taker.pool, holderOf(second.lease), 'in time', 0);
  expect(await complete(lease, 'later still')).toBe(false);
  expect((await taskOf(bench.db, batch)).result).toBe('in time');
});

for (const how of ['released', 'parked', 'stopped'] as const)
  test(`an attempt that ends as ${how} is not used up`, async () => {
    const { batch, lease } = await held();
    expect(await end(lease, { how })).toBe('pending');
    expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0, failure: null });
    expect((await attemptsOf(bench.db, batch)).at(-1)?.ending).toBe(how);
  });

test('a failed attempt is used up, and the third fails the task with its reason', async () => {
  const batch = await loadTestBatch(bench.db);
  const ends: (string | undefined)[] = [];
  for (let n = 1; n <= 3; n += 1) ends.push(await end((await bench.worker.claim(batch)).lease));

  expect(ends).toEqual(['pending', 'pending', 'failed']);
  expect(await taskOf(bench.db, batch)).toMatchObject({
    attempts: 3,
    failure: { kind: 'agent', message: 'no answer' },
  });
  expect(await passages(bench.db, batch)).toEqual(['claimed', 'resumed', 'claimed', 'resumed', 'claimed', 'failed']);
});

test('a failure that no attempt can mend fails the task at once', async () => {
  const { batch, lease } = await held();
  expect(await end(lease, { final: true })).toBe('failed');
  expect((await taskOf(bench.db, batch)).attempts).toBe(1);
});

test('the numbers of attempts are never used again, whatever is counted', async () => {
  const batch = await loadTestBatch(bench.db);
  for (const how of ['released', 'failed', 'stopped'] as const)
    await end((await bench.worker.claim(batch)).lease, { how });
  const { lease } = await bench.worker.claim(batch);
  expect((await attemptsOf(bench.db, batch)).map(({ number }) => number)).toEqual([1, 2, 3, 4]);
  expect([lease.token, (await taskOf(bench.db, batch)).attempts]).toEqual([4, 2]);
});

test('an attempt cannot be ended as lost or completed by its own word', async () => {
  const { lease } = await held();
  await expect(end(lease, { how: 'lost' as 'failed' })).rejects.toThrow(/not as lost/);
  await expect(end(lease, { how: 'completed' as 'failed' })).rejects.toThrow(/not as completed/);
});

test('of two ends of one attempt at the same moment the second waits, and gets nothing', async () => {
  const { batch, lease } = await held();
  const first = await openTransaction(bench.db);
  await first.client.query(`SELECT madrugada.complete_task($1, $2, $3, '"answer"', 0)`, [
    lease.taskId,
    bench.worker.id,
    lease.token,
  ]);
  const second = end(lease, { how: 'released' });
  expect(await rowLockWait(bench.db)).toContain('end_attempt');
  await first.commit();

  expect(await second).toBeUndefined();
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'completed', result: 'answer', attempts: 1 });
});

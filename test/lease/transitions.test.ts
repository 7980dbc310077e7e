import { expect, test } from 'vitest';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { passages, taskEvents } from '../support/audit.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { claimFor } from '../support/leases.ts';
import { openTransaction } from '../support/open-transaction.ts';

const bench = leaseBench();
const STATES = ['pending', 'running', 'completed', 'failed'] as const;
type State = (typeof STATES)[number];

/** The columns that must go with a state: whoever forgets them is refused by other constraints. */
const COLUMNS: Record<State, string> = {
  pending: `slot = NULL, worker_id = NULL, lease_expires_at = NULL, result = NULL, completed_at = NULL, failure = NULL`,
  running: `slot = 's', worker_id = (SELECT min(id) FROM madrugada.worker), lease_expires_at = madrugada.now() + interval '1 hour',
            result = NULL, completed_at = NULL, failure = NULL, waiting_for = NULL`,
  completed: `slot = NULL, worker_id = NULL, lease_expires_at = NULL, result = '1', completed_at = madrugada.now(), failure = NULL`,
  failed: `slot = NULL, worker_id = NULL, lease_expires_at = NULL, result = NULL, completed_at = NULL, failure = '{"message": "no"}'`,
};

const EVENTS: Partial<Record<`${State} ${State}`, string>> = {
  'pending running': 'claimed',
  'running completed': 'completed',
  'running failed': 'failed',
  'running pending': 'resumed',
  'failed pending': 'retried',
};

const WAYS: Record<State, State[]> = {
  pending: [],
  running: ['running'],
  completed: ['running', 'completed'],
  failed: ['running', 'failed'],
};

/** Changes the state as the superuser: nobody has more rights than the database itself gives him. */
async function set(taskId: number, state: State): Promise<void> {
  await bench.db.pool.query(`UPDATE madrugada.task SET state = '${state}', ${COLUMNS[state]} WHERE id = $1`, [taskId]);
}

async function taskIn(state: State): Promise<{ batch: string; id: number }> {
  const batch = await loadTestBatch(bench.db);
  const { id } = await taskOf(bench.db, batch);
  for (const step of WAYS[state]) await set(id, step);
  return { batch, id };
}

for (const from of STATES)
  for (const to of STATES) {
    const event = EVENTS[`${from} ${to}`];
    if (from === to) {
      test(`${from} to ${to} is no passage: it leaves no audit row`, async () => {
        const { batch, id } = await taskIn(from);
        await set(id, to);
        expect(await passages(bench.db, batch)).toHaveLength(WAYS[from].length);
      });
    } else if (event) {
      test(`the passage from ${from} to ${to} leaves exactly one audit row: ${event}`, async () => {
        const { batch, id } = await taskIn(from);
        await set(id, to);
        expect((await passages(bench.db, batch)).slice(WAYS[from].length)).toEqual([event]);
      });
    } else {
      test(`the passage from ${from} to ${to} is refused, whoever tries, and leaves no trace`, async () => {
        const { batch, id } = await taskIn(from);
        await expect(set(id, to)).rejects.toMatchObject({
          code: '23514',
          message: expect.stringMatching(/task .*: (no|a pending)/),
        });
        expect((await taskOf(bench.db, batch)).state).toBe(from);
        expect(await passages(bench.db, batch)).toHaveLength(WAYS[from].length);
      });
    }
  }

test('a pending task of a stopped batch may fail, so that the batch can be closed', async () => {
  const { batch, id } = await taskIn('pending');
  await bench.db.pool.query(`SELECT madrugada.stop_batch($1, 'by the test')`, [batch]);
  await set(id, 'failed');
  expect(await passages(bench.db, batch)).toEqual(['failed']);
});

test('a passage and its audit row are one: rolled back together', async () => {
  const { batch, id } = await taskIn('pending');
  const changing = await openTransaction(bench.db);
  await changing.client.query(`UPDATE madrugada.task SET state = 'running', ${COLUMNS.running} WHERE id = $1`, [id]);
  await changing.rollback();
  expect((await taskOf(bench.db, batch)).state).toBe('pending');
  expect(await passages(bench.db, batch)).toEqual([]);
});

test('a passage whose audit row cannot be written does not happen', async () => {
  const { batch, id } = await taskIn('pending');
  await bench.db.pool.query(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON madrugada.audit_event FOR EACH ROW EXECUTE FUNCTION public.refuse()`);
  try {
    await expect(set(id, 'running')).rejects.toThrow('no room');
  } finally {
    await bench.db.pool.query('DROP TRIGGER refuse ON madrugada.audit_event');
  }
  expect((await taskOf(bench.db, batch)).state).toBe('pending');
});

test('an audit row says who: the login, and beside it the name and reason that were given', async () => {
  const { batch, id } = await taskIn('failed');
  const retry = await openTransaction(bench.db);
  await retry.client.query(
    `SELECT set_config('madrugada.by', 'Ana', true), set_config('madrugada.reason', 'seen', true), set_config('madrugada.os_user', 'ana', true)`,
  );
  await retry.client.query('SELECT madrugada.retry_task($1, NULL)', [id]);
  await retry.commit();
  const { rows } = await bench.db.pool.query(
    `SELECT by_name, reason, os_user, session_user_name = session_user AS login FROM madrugada.audit_event WHERE task_id = $1 AND event = 'retried'`,
    [id],
  );
  expect(rows).toEqual([{ by_name: 'Ana', reason: 'seen', os_user: 'ana', login: true }]);
  expect((await taskEvents(bench.db, batch)).at(-1)?.reason).toBe('seen');
});

test('a lease token never gets smaller', async () => {
  const batch = await loadTestBatch(bench.db);
  const lease = await claimFor(bench.db, bench.worker.id, batch);
  await expect(
    bench.db.pool.query('UPDATE madrugada.task SET lease_token = 0 WHERE id = $1', [lease.taskId]),
  ).rejects.toThrow(/the lease token only grows/);
});

for (const column of ['slot', 'worker_id', 'lease_expires_at'])
  test(`a running task always has its ${column}`, async () => {
    const { id } = await taskIn('running');
    await expect(
      bench.db.pool.query(`UPDATE madrugada.task SET ${column} = NULL WHERE id = $1`, [id]),
    ).rejects.toMatchObject({ code: '23514' });
  });

test('a task cannot be completed without its answer', async () => {
  const { id } = await taskIn('running');
  await expect(
    bench.db.pool.query(
      `UPDATE madrugada.task SET state = 'completed', slot = NULL, worker_id = NULL, lease_expires_at = NULL, completed_at = madrugada.now() WHERE id = $1`,
      [id],
    ),
  ).rejects.toMatchObject({ code: '23514' });
});

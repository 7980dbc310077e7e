import { expect, test } from 'vitest';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';
import { openTransaction } from '../support/open-transaction.ts';

const bench = leaseBench();
const REFUSED = { code: '23514' };
const insert = (batch: string, position: number) => ({
  text: `INSERT INTO madrugada.task (batch_id, item, version, position, input) VALUES ($1, $2, 'v1', $3, '{}')`,
  values: [batch.split(':')[0], `late ${position}`, position],
});

test('no task is added to a loaded batch, by nobody', async () => {
  const batch = await loadTestBatch(bench.db);
  await expect(bench.db.pool.query(insert(batch, 2))).rejects.toMatchObject({
    ...REFUSED,
    message: `batch ${batch} is a closed list: no task is added after it was loaded`,
  });
});

test('no task is removed from a batch that is not archived, by nobody', async () => {
  const batch = await loadTestBatch(bench.db, { tasks: 2 });
  await expect(bench.db.pool.query('DELETE FROM madrugada.task WHERE batch_key = $1', [batch])).rejects.toMatchObject({
    ...REFUSED,
    message: expect.stringMatching(/no task is removed from a batch that is not archived/),
  });
});

test('a batch whose tasks are fewer than it announced is not loaded', async () => {
  const loading = await openTransaction(bench.db);
  await loading.client.query(
    `INSERT INTO madrugada.batch (id, version, agent, tasks_sha256, task_count) VALUES ('short', 'v1', 'prompt', '', 2)`,
  );
  await loading.client.query(insert('short:v1', 1));
  await expect(loading.client.query('SET CONSTRAINTS ALL IMMEDIATE')).rejects.toThrow(
    'batch short:v1: 2 tasks announced, 1 loaded',
  );
});

for (const [column, value] of [
  ['input', `'{"question": "another"}'`],
  ['item', `'another'`],
  ['position', '7'],
  ['version', `'v2'`],
])
  test(`the ${column} of a loaded task does not change`, async () => {
    const { id } = await taskOf(bench.db, await loadTestBatch(bench.db));
    await expect(
      bench.db.pool.query(`UPDATE madrugada.task SET ${column} = ${value} WHERE id = $1`, [id]),
    ).rejects.toMatchObject(REFUSED);
  });

for (const change of ['task_count = 5', `tasks_sha256 = 'x'`, `id = 'other'`, 'loaded_in = pg_current_xact_id()'])
  test(`a loaded list does not change: ${change} is refused`, async () => {
    const batch = await loadTestBatch(bench.db);
    await expect(
      bench.db.pool.query(`UPDATE madrugada.batch SET ${change} WHERE batch_key = $1`, [batch]),
    ).rejects.toMatchObject(REFUSED);
  });

const BATCH_STATES = ['open', 'stopped', 'closed', 'archived'] as const;
const VALID = ['open stopped', 'stopped open', 'open closed', 'stopped closed', 'closed archived'];
const SETTING = {
  open: `state = 'open', stop_reason = NULL`,
  stopped: `state = 'stopped', stop_reason = 'by the test'`,
  closed: `state = 'closed', stop_reason = NULL, closed_at = madrugada.now()`,
  archived: `state = 'archived', stop_reason = NULL, closed_at = madrugada.now()`,
};

for (const from of BATCH_STATES)
  for (const to of BATCH_STATES.filter((state) => state !== from)) {
    const isValid = VALID.includes(`${from} ${to}`);
    test(`a batch ${isValid ? 'may go' : 'cannot go'} from ${from} to ${to}`, async () => {
      const batch = await loadTestBatch(bench.db);
      const go = (state: keyof typeof SETTING) =>
        bench.db.pool.query(`UPDATE madrugada.batch SET ${SETTING[state]} WHERE batch_key = $1`, [batch]);
      if (from === 'archived') await go('closed');
      if (from !== 'open') await go(from);
      if (!isValid) return expect(go(to)).rejects.toMatchObject(REFUSED);
      await go(to);
      const { rows } = await bench.db.pool.query(
        `SELECT from_state, to_state FROM madrugada.audit_event WHERE batch_key = $1 AND subject = 'batch' ORDER BY id DESC LIMIT 1`,
        [batch],
      );
      expect(rows).toEqual([{ from_state: from, to_state: to }]);
    });
  }

import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadTestBatch } from '../support/attempts.ts';
import { type CommandResult, runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db.drop());

const madrugada = (...args: string[]): Promise<CommandResult> =>
  runCommand(args, { environment: { DATABASE_URL: db.url } });
const json = async (...args: string[]) => JSON.parse((await madrugada(...args, '--json')).stdout);
const BY = ['--by', 'Ana', '--reason', 'the bill was right'];

test('stop stops everything, status shows it, resume lifts it, and the audit trail knows who said so', async () => {
  expect(await json('stop', '--reason', 'the bill looks wrong')).toEqual({ stopped: true, changed: true });
  expect(await json('stop', '--reason', 'again')).toEqual({ stopped: true, changed: false });
  expect((await madrugada('status')).stdout).toContain('EVERYTHING IS STOPPED: the bill looks wrong');
  expect(await json('resume', ...BY)).toEqual({ stopped: false, changed: true, confirmed_server: false });
  expect(await json('resume', ...BY)).toMatchObject({ changed: false });
  const { rows } = await db.pool.query(
    `SELECT event, reason, by_name FROM madrugada.audit_event WHERE subject = 'stop' ORDER BY id`,
  );
  expect(rows).toEqual([
    { event: 'stopped everything', reason: 'the bill looks wrong', by_name: null },
    { event: 'lifted', reason: 'the bill was right', by_name: 'Ana' },
  ]);
});

for (const [flags, missing] of [
  [['--by', 'Ana'], '--reason'],
  [['--reason', 'why not'], '--by'],
] as const)
  test(`resume without ${missing} is refused`, async () => {
    const { code, stderr } = await madrugada('resume', ...flags);
    expect(code).toBe(2);
    expect(stderr).toContain(missing);
  });

test('resume on another server than before says that this one counts as looked at from now on', async () => {
  await db.pool.query(
    `INSERT INTO madrugada.server_identity (system_identifier, timeline_id) SELECT s.system_identifier + 1, 1 FROM pg_control_system() s`,
  );
  await db.pool.query('SELECT madrugada.check_server_identity()');
  const { stdout } = await madrugada('resume', ...BY);
  const { rows } = await db.pool.query('SELECT madrugada.check_server_identity() AS known');

  expect(stdout).toContain('the stop of everything is lifted');
  expect(stdout).toContain('the database is on another server than before; from now on this one counts as looked at');
  expect(rows).toEqual([{ known: true }]);
});

test('an alert is listed and stands in the status until it is acknowledged', async () => {
  const batch = await loadTestBatch(db);
  await db.pool.query(`SELECT madrugada.stop_automatically($1, 'account', 'HTTP 401')`, [batch]);
  const [{ id, ...alert }] = await json('alert', 'list');
  const status = await madrugada('status');
  const acknowledged = await json('alert', 'ack', String(id), '--by', 'Ana', '--note', 'key renewed');

  expect(alert).toMatchObject({ kind: 'account', batch_key: batch, message: 'HTTP 401', acknowledged_at: null });
  expect(status.stdout).toMatch(new RegExp(`ALERT ${id}, .*, account of batch ${batch}: HTTP 401`));
  expect(acknowledged).toEqual({ alert: id, changed: true });
  expect(await json('alert', 'list')).toEqual([]);
  expect((await json('alert', 'list', '--all')).at(-1)).toMatchObject({
    id,
    acknowledged_by: 'Ana',
    ack_note: 'key renewed',
  });
  expect((await madrugada('status')).stdout).not.toContain('ALERT');
});

test('acknowledging what is no alert is refused with what to do', async () => {
  expect(await madrugada('alert', 'ack', 'seven', '--by', 'Ana')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('"seven" is no alert: give the number that madrugada alert list shows'),
  });
});

import { type AddressInfo, connect as connectSocket, createServer } from 'node:net';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { NoEffect, UndoRefused } from '../../../src/action/define-action.ts';
import { postgresAction } from '../../../src/action/kinds/postgres.ts';
import { sql } from '../../../src/action/kinds/sql.ts';
import { keyOf, startExecution } from '../../support/action-process.ts';
import { bankDatabase } from '../../support/bank.ts';
import { rowLockWait } from '../../support/row-lock-wait.ts';
import { type Transfer, transferAction } from '../../support/transfer.ts';
import { until } from '../../support/until.ts';

const bank = bankDatabase();
const action = transferAction();
const transfer: Transfer = { from: 1, to: 2, amount: '300.00' };
const before = { rows: [] };

beforeEach(async () => {
  process.env.BANK_URL = bank.db.url;
  await bank.db.pool.query('TRUNCATE bank.account, bank.movement, public.madrugada_action_key');
  await bank.db.pool.query('INSERT INTO bank.account (id, balance) VALUES (1, 1000), (2, 50), (3, 0)');
});

function context(name: string, signal = new AbortController().signal) {
  return { key: keyOf(name), signal };
}

async function balances(): Promise<string[]> {
  const { rows } = await bank.db.pool.query('SELECT balance FROM bank.account ORDER BY id');
  return rows.map(({ balance }) => balance);
}

async function movements(): Promise<string[]> {
  const { rows } = await bank.db.pool.query('SELECT account, amount FROM bank.movement ORDER BY account, amount');
  return rows.map(({ account, amount }) => `${account}: ${amount}`);
}

function undo(name: string, seen: unknown = undefined) {
  if (action.rollback.kind !== 'in-band') throw new Error('a postgres action is undone in-band');
  return action.rollback.undo({ args: transfer, before, effect: undefined, seen }, context(name));
}

describe('the effect', () => {
  test('a transfer changes both accounts, and is read back as intended', async () => {
    expect(await action.precondition(transfer, context('a'))).toEqual({
      holds: true,
      before: {
        rows: [
          { id: '1', balance: '1000.00' },
          { id: '2', balance: '50.00' },
        ],
      },
    });
    expect(await action.verify(transfer, before, undefined, context('a'))).toMatchObject({ found: 'nothing' });
    expect(await action.execute(transfer, before, context('a'))).toMatchObject({
      rows: [
        { id: '1', balance: '700.00' },
        { id: '2', balance: '350.00' },
      ],
    });
    expect(await action.verify(transfer, before, undefined, context('a'))).toMatchObject({
      found: 'effect',
      strength: 'strong',
    });
    expect(await balances()).toEqual(['700.00', '350.00', '0.00']);
  });

  test('a second execution with its key returns what the first one returned, and moves nothing', async () => {
    const first = await action.execute(transfer, before, context('a'));
    expect(await action.execute(transfer, before, context('a'))).toEqual(first);
    expect(await movements()).toEqual(['1: -300.00', '2: 300.00']);
  });

  test('money is exact where a float is not', async () => {
    await bank.db.pool.query('UPDATE bank.account SET balance = 900719925474099301.10 WHERE id = 1');
    await action.execute({ ...transfer, amount: '0.03' }, before, context('a'));
    expect((await balances())[0]).toBe('900719925474099301.07');
    expect((await action.verify(transfer, before, undefined, context('a'))).found).toBe('effect');
  });

  test('one row is declared as easily as two', async () => {
    const rename = postgresAction<{ id: number; owner: string }>({
      database: () => bank.db.url,
      table: 'bank.account',
      key: ['id'],
      columns: ['owner'],
      where: ({ id }) => sql`id = ${id}`,
      precondition: () => sql`(SELECT owner FROM locked) = 'somebody'`,
      otherwise: 'it has another owner',
      update: ({ id, owner }) => sql`UPDATE bank.account SET owner = ${owner} WHERE id = ${id} RETURNING id, owner`,
      intended: ({ id, owner }) => sql`SELECT ${id}::bigint AS id, ${owner} AS owner`,
    });
    expect(await rename.present?.({ id: 3, owner: "O'Neil" })).toEqual({
      relation: 'bank.account (id, owner)',
      rows: [{ id: '3', owner: 'somebody' }],
      intended: [{ id: '3', owner: "O'Neil" }],
    });
    await rename.execute({ id: 3, owner: "O'Neil" }, before, context('a'));
    const { rows } = await bank.db.pool.query('SELECT owner FROM bank.account WHERE id = 3');
    expect(rows).toEqual([{ owner: "O'Neil" }]);
  });
});

describe('no effect', () => {
  test('approved at a balance of 1000, executed at 200: nothing moves', async () => {
    expect(await action.precondition(transfer, context('a'))).toMatchObject({ holds: true });
    await bank.db.pool.query('UPDATE bank.account SET balance = 200 WHERE id = 1');
    await bank.db.pool.query('TRUNCATE bank.movement');
    const executed = action.execute(transfer, before, context('a'));
    await expect(executed).rejects.toThrow(NoEffect);
    await expect(executed).rejects.toThrow(/less than 300.00.*"balance": 200.00/);
    expect(await movements()).toEqual([]);
    expect(await action.precondition(transfer, context('a'))).toMatchObject({ holds: false });
    expect((await action.verify(transfer, before, undefined, context('a'))).found).toBe('nothing');
  });

  test('the precondition sees what a transaction that was under way has left', async () => {
    const other = await bank.db.pool.connect();
    await other.query('BEGIN; UPDATE bank.account SET balance = 200 WHERE id = 1');
    const executed = expect(action.execute(transfer, before, context('a'))).rejects.toThrow(/less than 300.00/);
    await rowLockWait(bank.db);
    await other.query('COMMIT');
    other.release();
    await executed;
    expect((await balances())[1]).toBe('50.00');
  });

  test.each([
    ['an account that does not exist', { ...transfer, to: 99 }],
    ['an account that is its own counterpart', { ...transfer, to: 1 }],
  ])('%s stops a transfer', async (_, args) => {
    await expect(action.execute(args, before, context('a'))).rejects.toThrow(/has 1 of the rows concerned, not 2/);
    expect(await movements()).toEqual([]);
  });

  test('an UPDATE that returns other rows than intended is rolled back', async () => {
    const wrong = transferAction({
      update: ({ from, to }) =>
        sql`UPDATE bank.account SET balance = balance - 1 WHERE id IN (${from}, ${to}) RETURNING id, balance`,
    });
    const executed = wrong.execute(transfer, before, context('a'));
    await expect(executed).rejects.toThrow(NoEffect);
    await expect(executed).rejects.toThrow(/returned .*999.00.* where .*700.00.* was intended/);
    expect(await movements()).toEqual([]);
  });

  test.each(['', 'DEFERRABLE INITIALLY DEFERRED'])(
    'what a trigger of the target makes of it is rolled back (%s)',
    async (when) => {
      await bank.db.pool.query(`
      CREATE OR REPLACE FUNCTION bank.clip() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN UPDATE bank.account SET balance = 320 WHERE id = NEW.id AND balance > 320; RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER clip AFTER UPDATE ON bank.account ${when} FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION bank.clip()`);
      onTestFinished(async () => void (await bank.db.pool.query('DROP TRIGGER clip ON bank.account')));
      await expect(action.execute(transfer, before, context('a'))).rejects.toThrow(/such as a trigger/);
      expect(await movements()).toEqual([]);
      expect((await action.verify(transfer, before, undefined, context('a'))).found).toBe('nothing');
    },
  );

  test('a constraint of the target that refuses it is no effect, not a doubt', async () => {
    const careless = transferAction({ precondition: () => sql`true` });
    const executed = careless.execute({ ...transfer, amount: '5000' }, before, context('a'));
    await expect(executed).rejects.toThrow(NoEffect);
    await expect(executed).rejects.toThrow(/account_balance_check/);
  });

  test('a target without the key table says how to create it', async () => {
    const elsewhere = transferAction({ keyTable: 'absent_key' });
    await expect(elsewhere.precondition(transfer, context('a'))).rejects.toThrow(/CREATE TABLE madrugada_action_key/);
    await expect(elsewhere.execute(transfer, before, context('a'))).rejects.toThrow(NoEffect);
  });

  test('an execution that is called off while it waits for a row is no longer waiting, and does nothing', async () => {
    const other = await bank.db.pool.connect();
    await other.query('BEGIN; UPDATE bank.account SET balance = 999 WHERE id = 1');
    const stop = new AbortController();
    const executed = action.execute(transfer, before, context('a', stop.signal)).catch((error) => error);
    await rowLockWait(bank.db);
    stop.abort();
    const error = await executed;
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(NoEffect);
    await other.query('COMMIT');
    other.release();
    await until('the target has let go', async () => {
      const { rows } = await bank.db.pool.query(
        `SELECT FROM pg_stat_activity WHERE application_name LIKE 'madrugada action%'`,
      );
      return rows.length === 0;
    });
    expect((await balances())[1]).toBe('50.00');
  });

  test('no error names the URL, its host, its user or its password', async () => {
    const url = 'postgres://teller:s3cret@127.0.0.1:9/vault';
    const unreachable = transferAction({ database: () => url });
    const error = await unreachable.execute(transfer, before, context('a')).catch((thrown) => thrown);
    expect(error.message).toBe('the target database cannot be reached (ECONNREFUSED)');
    expect(`${error.stack} ${JSON.stringify(error)} ${error.cause}`).not.toMatch(/s3cret|teller|vault|127\.0\.0\.1/);
    process.env.BANK_URL = 'mysql://teller:s3cret@host/vault';
    const wrong = await action.execute(transfer, before, context('a')).catch((thrown) => thrown);
    expect(wrong.message).toMatch(/BANK_URL/);
    expect(wrong.message).not.toMatch(/s3cret|teller|vault/);
  });
});

describe('reading back', () => {
  test('rows that somebody else has changed since are something else, shown with both', async () => {
    await action.execute(transfer, before, context('a'));
    await bank.db.pool.query('UPDATE bank.account SET balance = 7 WHERE id = 2');
    expect(await action.verify(transfer, before, undefined, context('a'))).toMatchObject({
      found: 'something else',
      evidence: {
        intended: [{ balance: '700.00' }, { balance: '350.00' }],
        now: [{ balance: '700.00' }, { balance: '7.00' }],
      },
    });
  });

  test('rows that only later actions have changed since still show the effect', async () => {
    await action.execute(transfer, before, context('a'));
    await action.execute({ from: 2, to: 3, amount: '1' }, before, context('b'));
    await action.execute({ from: 3, to: 1, amount: '0.50' }, before, context('c'));
    expect(await action.verify(transfer, before, undefined, context('a'))).toMatchObject({
      found: 'effect',
      evidence: { changedBy: [keyOf('b'), keyOf('c')].sort() },
    });
  });

  test('a change by somebody else between two actions is not explained away', async () => {
    await action.execute(transfer, before, context('a'));
    await bank.db.pool.query('UPDATE bank.account SET balance = balance - 100 WHERE id = 2');
    await action.execute({ from: 2, to: 3, amount: '1' }, before, context('b'));
    expect((await action.verify(transfer, before, undefined, context('a'))).found).toBe('something else');
    expect((await action.verify(transfer, before, undefined, context('b'))).found).toBe('effect');
  });

  test('a later action that was undone leaves the effect as it was', async () => {
    await action.execute(transfer, before, context('a'));
    await action.execute({ from: 2, to: 3, amount: '1' }, before, context('b'));
    await undo('b');
    expect((await action.verify(transfer, before, undefined, context('a'))).found).toBe('effect');
    expect(await balances()).toEqual(['700.00', '350.00', '0.00']);
  });
});

describe('the undo', () => {
  test('restores the previous rows once, and then nothing is found', async () => {
    await action.execute(transfer, before, context('a'));
    await undo('a');
    await undo('a');
    expect(await balances()).toEqual(['1000.00', '50.00', '0.00']);
    expect(await movements()).toEqual(['1: -300.00', '1: 300.00', '2: -300.00', '2: 300.00']);
    expect((await action.verify(transfer, before, undefined, context('a'))).found).toBe('nothing');
  });

  test('a second undo does not strike what has been done to the rows since', async () => {
    await action.execute(transfer, before, context('a'));
    await undo('a');
    await action.execute(transfer, before, context('b'));
    await undo('a');
    expect(await balances()).toEqual(['700.00', '350.00', '0.00']);
  });

  test('is refused when somebody has changed a row since, and changes nothing', async () => {
    await action.execute(transfer, before, context('a'));
    await bank.db.pool.query('UPDATE bank.account SET balance = balance + 1 WHERE id = 2');
    await expect(undo('a')).rejects.toThrow(UndoRefused);
    expect(await balances()).toEqual(['700.00', '351.00', '0.00']);
  });

  test('sees a change that was under way when it began', async () => {
    await action.execute(transfer, before, context('a'));
    const other = await bank.db.pool.connect();
    await other.query('BEGIN; UPDATE bank.account SET balance = 1 WHERE id = 2');
    const refused = expect(undo('a')).rejects.toThrow(UndoRefused);
    await rowLockWait(bank.db);
    await other.query('COMMIT');
    other.release();
    await refused;
    expect((await balances())[1]).toBe('1.00');
  });

  test('of what never happened keeps a late execution from happening', async () => {
    await undo('a');
    await expect(action.execute(transfer, before, context('a'))).rejects.toThrow(NoEffect);
    expect(await balances()).toEqual(['1000.00', '50.00', '0.00']);
  });

  test('ten undos at once restore once', async () => {
    await action.execute(transfer, before, context('a'));
    await Promise.all(Array.from({ length: 10 }, () => undo('a')));
    expect(await movements()).toHaveLength(4);
  });
});

describe('the worst moments', () => {
  const args = ['transfer', 'execute', keyOf('a'), JSON.stringify(transfer), JSON.stringify(before)];
  const start = (failpoint?: string) => startExecution(args, { ...(failpoint && { failpoint }), bankUrl: bank.db.url });

  test.each([
    ['action.postgres.locked', 'nothing'],
    ['action.postgres.key', 'nothing'],
    ['action.postgres.written', 'nothing'],
    ['action.postgres.committed', 'effect'],
  ] as const)('killed at %s: %s is found, and the next execution ends with one effect', async (place, found) => {
    expect(await start(`${place}:kill`).result).toMatchObject({ signal: 'SIGKILL' });
    expect((await action.verify(transfer, before, undefined, context('a'))).found).toBe(found);
    await action.execute(transfer, before, context('a'));
    expect(await movements()).toEqual(['1: -300.00', '2: 300.00']);
  });

  test('five processes with one key make one effect, and all return it', async () => {
    const results = await Promise.all(Array.from({ length: 5 }, () => start().result));
    expect(new Set(results.map(({ stdout }) => stdout)).size).toBe(1);
    expect(results.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0]);
    expect(await movements()).toEqual(['1: -300.00', '2: 300.00']);
  });

  test('an executor frozen before its commit is not taken for absent: unknown until it has gone', async () => {
    const frozen = start('action.postgres.written:stop');
    await until('it holds its transaction', async () => {
      const { rows } = await bank.db.pool.query(
        `SELECT FROM pg_stat_activity WHERE application_name LIKE 'madrugada action%' AND state = 'idle in transaction' AND query LIKE '%w USING%'`,
      );
      return rows.length === 1;
    });
    const impatient = transferAction({ waitForExecution: 50 });
    expect((await impatient.verify(transfer, before, undefined, context('a'))).found).toBe('unknown');
    const second = action.execute(transfer, before, context('a'));
    frozen.process.kill('SIGCONT');
    expect(await second).toEqual(JSON.parse((await frozen.result).stdout));
    expect(await movements()).toEqual(['1: -300.00', '2: 300.00']);
  });

  test('an answer to COMMIT that is lost is a doubt, which reading back settles', async () => {
    const deaf = transferAction({ database: await losingTheCommit() });
    const error = await deaf.execute(transfer, before, context('a')).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(NoEffect);
    expect((await action.verify(transfer, before, undefined, context('a'))).found).toBe('effect');
  });
});

/** The URL of a way to the bank that passes COMMIT on, and breaks instead of passing on the answer. */
async function losingTheCommit(): Promise<() => string> {
  const url = new URL(bank.db.url);
  const { hostname, port } = url;
  const server = createServer((client) => {
    const upstream = connectSocket(Number(port), hostname);
    let isCommitting = false;
    client.on('data', (chunk) => {
      isCommitting ||= chunk.includes('COMMIT\0');
      upstream.write(chunk);
    });
    upstream.on('data', (chunk) => (isCommitting ? client.destroy() : client.write(chunk)));
    client.once('close', () => upstream.end());
    for (const socket of [client, upstream]) socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  url.port = String((server.address() as AddressInfo).port);
  return () => url.href;
}

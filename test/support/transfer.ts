import { type PostgresAction, postgresAction } from '../../src/action/kinds/postgres.ts';
import { sql } from '../../src/action/kinds/sql.ts';

/** Money to be moved in the bank of test/support/bank.ts; the amount as text, since money is exact. */
export interface Transfer {
  from: number;
  to: number;
  amount: string;
}

const DECLARED: PostgresAction<Transfer> = {
  database: 'BANK_URL',
  table: 'bank.account',
  key: ['id'],
  columns: ['balance'],
  rows: 2,
  where: ({ from, to }) => sql`id IN (${from}, ${to})`,
  precondition: ({ from, amount }) => sql`(SELECT balance FROM locked WHERE id = ${from}) >= ${amount}`,
  otherwise: ({ amount }) => `the account has less than ${amount}`,
  update: ({ from, to, amount }) => sql`
    UPDATE bank.account SET balance = balance + CASE id WHEN ${from} THEN -${amount}::numeric ELSE ${amount}::numeric END
     WHERE id IN (${from}, ${to}) RETURNING id, balance`,
  intended: ({ from, to, amount }) => sql`
    SELECT id, balance - ${amount} AS balance FROM locked WHERE id = ${from}
    UNION ALL SELECT id, balance + ${amount} FROM locked WHERE id = ${to}`,
};

/** A transfer in the bank whose URL is in `BANK_URL`. */
export function transferAction(changes: Partial<PostgresAction<Transfer>> = {}) {
  return postgresAction({ ...DECLARED, ...changes });
}

import { z } from 'zod';
// relative, so that it runs before the package is built; your own agent says: from 'madrugada'
import { defineAction, defineAgent, postgresAction, sql } from '../../src/index.ts';

const TRANSFER = z.object({ from: z.number(), to: z.number(), amount: z.string() }); // money is text: never a float
type Transfer = z.infer<typeof TRANSFER>;

const transfer = defineAction({
  ...postgresAction<Transfer>({
    database: 'BANK_URL', // the environment variable with the target's URL: staging for a rehearsal
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
  }),
  name: 'transfer',
  arguments: TRANSFER,
  intent: ({ from, to, amount }) => `move ${amount} from account ${from} to account ${to}`,
  permissions: ['UPDATE on bank.account'],
  blastRadius: 'two accounts of the bank',
  approval: 'person',
  expiresIn: 24 * 3_600_000,
});

/** Moves money between two accounts once a person has agreed to exactly this transfer. */
export default defineAgent({
  input: TRANSFER,
  output: z.object({ state: z.string() }),
  actions: [transfer],
  async run(task) {
    const { state } = await task.action(transfer, task.input);
    return { state };
  },
});

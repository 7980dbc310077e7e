import { afterAll, beforeEach } from 'vitest';
import { z } from 'zod';
import { type ChecklistPoint, type Decided, decideAction, settleAction } from '../../src/action/decide-action.ts';
import type { ActionOutcome, AnyAction } from '../../src/action/define-action.ts';
import { defineAgent } from '../../src/agent/define-agent.ts';
import type { Task } from '../../src/agent/task.ts';
import { type DatabaseRole, openClient } from '../../src/postgres/connect.ts';
import { allowUnrehearsed } from './allow-unrehearsed.ts';
import type { RunningAttempt, TestWorker } from './attempts.ts';
import { bankDatabase } from './bank.ts';
import type { TestDatabase } from './database.ts';
import { type JournalBench, journalBench } from './journal-bench.ts';

export { transferDefinition } from './action-definitions.ts';

export interface ActionBench extends JournalBench {
  /** The bank's database. */
  readonly bank: TestDatabase;
  /** Balances of the accounts 1, 2 and 3, which begin with 1000, 50 and 0. */
  balances(): Promise<string[]>;
  setBalance(account: number, balance: number): Promise<void>;
  /** How often money was moved on an account. */
  movements(account: number): Promise<number>;
  /** Begins an attempt of an agent with these actions on the batch's next task. */
  start(worker: TestWorker, batch: string, actions: AnyAction[], run: (task: Task) => unknown): Promise<RunningAttempt>;
  action(id: number): Promise<Record<string, string>>;
  /** Decides as `madrugada action approve` does, on the digest that is stored now unless told. */
  decide(id: number, how?: Partial<HowDecided>): Promise<Decided>;
  /** Settles an action as `madrugada action settle` does. */
  settle(id: number, as: 'committed' | 'aborted' | 'rolled_back', role?: DatabaseRole): Promise<void>;
  /** Lets a batch's actions be proposed without a rehearsal. */
  allow(batch: string): Promise<string>;
}

interface HowDecided {
  by: string;
  verdict: 'approve' | 'reject';
  digest: string;
  challenge: string;
  checklist: ChecklistPoint[];
  reason: string;
  as: DatabaseRole;
}

/** What the tests of actions share: a bank, a provider, workers. */
export function actionBench(): ActionBench {
  const bench = journalBench() as ActionBench;
  const bank = bankDatabase();
  afterAll(() => {
    delete process.env.BANK_URL;
  });
  beforeEach(async () => {
    process.env.BANK_URL = bank.db.url;
    await bank.db.pool.query('TRUNCATE bank.account, bank.movement, public.madrugada_action_key');
    await bank.db.pool.query('INSERT INTO bank.account (id, balance) VALUES (1, 1000), (2, 50), (3, 0)');
  });
  Object.defineProperty(bench, 'bank', { get: () => bank.db });
  bench.balances = async () =>
    (await bank.db.pool.query('SELECT balance FROM bank.account ORDER BY id')).rows.map(({ balance }) => balance);
  bench.setBalance = async (account, balance) => {
    await bank.db.pool.query('UPDATE bank.account SET balance = $2 WHERE id = $1', [account, balance]);
  };
  bench.movements = async (account) =>
    (await bank.db.pool.query('SELECT count(*)::int AS n FROM bank.movement WHERE account = $1', [account])).rows[0].n;
  bench.start = async (worker, batch, actions, run) => {
    const { task, lease } = await worker.claim(batch);
    const agent = defineAgent({
      input: z.unknown(),
      output: z.any(),
      actions,
      run: async (task) => (await run(task)) ?? null,
    });
    return worker.runAgent(task, lease, agent);
  };
  bench.action = async (id) =>
    (await bench.db.pool.query('SELECT * FROM madrugada.action WHERE id = $1', [id])).rows[0];
  bench.decide = async (id, how = {}) => {
    const { by = 'ana', verdict = 'approve', challenge, checklist = [], reason, as = 'approver' } = how;
    const digest = how.digest ?? (await bench.action(id)).digest ?? '';
    const client = await openClient({ url: bench.db.url, as, applicationName: 'madrugada test' });
    try {
      return await decideAction(client, { id, digest, verdict, challenge, checklist }, { by, reason });
    } finally {
      await client.end();
    }
  };
  bench.settle = async (id, state, as = 'approver') => {
    const client = await openClient({ url: bench.db.url, as, applicationName: 'madrugada test' });
    try {
      await settleAction(client, id, state, { by: 'ana', reason: 'a test' });
    } finally {
      await client.end();
    }
  };
  bench.allow = (batch) => allowUnrehearsed(bench.db, batch);
  return bench;
}

export type { ActionOutcome };

import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { settleDoubt } from '../../src/bill/doubts.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';
import { takeAway } from '../support/leases.ts';

const bench = journalBench();
let client: Client;
beforeAll(async () => {
  client = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'madrugada test' });
});
afterAll(() => client.end());

const ANA = { by: 'ana', reason: 'the provider says so' };
/** What the scripted provider's answer costs. */
const COST = '0.00011';

/** What each place that tells of money says the batch has spent. */
async function spent(batch: string): Promise<Record<string, string>> {
  const { rows } = await bench.db.pool.query(
    `SELECT trim_scale((SELECT sum(spent_usd) FROM madrugada.task WHERE batch_key = $1)) AS tasks,
            trim_scale((SELECT sum(madrugada.journal_cost(batch_key, id)) FROM madrugada.task WHERE batch_key = $1)) AS shown,
            trim_scale((SELECT sum(journal_usd) FROM madrugada.audit_task_charges WHERE batch_key = $1)) AS charges,
            trim_scale((SELECT journal_usd FROM madrugada.audit_batch_totals WHERE batch_key = $1)) AS totals,
            trim_scale((SELECT spent_usd FROM madrugada.audit_budget WHERE batch_key = $1)) AS budget`,
    [batch],
  );
  return rows[0];
}

const everywhere = (usd: string) => ({ tasks: usd, shown: usd, charges: usd, totals: usd, budget: usd });

/** A task whose first dispatch is in doubt; `completed`: it was paid again, and answered. `letGo` brings the lost answer all the same. */
async function inDoubt({ completed }: { completed: boolean }) {
  const batch = await loadTestBatch(bench.db, { budgetUsd: '5', doubtPolicy: completed ? 'pay_again' : 'hold' });
  const [sender, taker] = [await bench.workers.add(), await bench.workers.add()];
  bench.provider.hold();
  const attempt = await sender.start(batch, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(1);
  await takeAway(bench.db, attempt.lease.taskId);
  await sender.leave();
  bench.provider.script = (exchange) => exchange.message('paid again');
  if (completed) await taker.attempt(batch, (task) => ask(task, 'one'));
  const letGo = async () => {
    exchange.message();
    await attempt.result;
    await attempt.session().settled();
  };
  return { batch, call: { task: attempt.lease.key, seq: 1, dispatch: 1 }, letGo };
}

test('what a person has settled as charged is spent, wherever spending is shown', async () => {
  const { batch, call, letGo } = await inDoubt({ completed: false });
  await settleDoubt(client, call, { verdict: 'charged', usd: '0.01', payAgain: false }, ANA);

  expect(await spent(batch)).toEqual(everywhere('0.01'));
  await letGo();
});

test('what a person has settled as not charged is not spent', async () => {
  const { batch, call, letGo } = await inDoubt({ completed: false });
  await settleDoubt(client, call, { verdict: 'not_charged' }, ANA);

  expect(await spent(batch)).toEqual(everywhere('0'));
  await letGo();
});

test('a doubt settled as charged after its task was completed is spent beside what was paid again', async () => {
  const { batch, call, letGo } = await inDoubt({ completed: true });
  await settleDoubt(client, call, { verdict: 'charged', usd: '0.01', payAgain: false }, ANA);

  expect(await spent(batch)).toEqual(everywhere('0.01011'));
  await letGo();
});

test('an answer that comes after its task was completed by another is spent, too', async () => {
  const { batch, letGo } = await inDoubt({ completed: true });
  const before = await spent(batch);
  await letGo();

  expect(before).toEqual(everywhere(COST));
  expect(await spent(batch)).toEqual(everywhere('0.00022'));
});

test('the late answer of a doubt that a person settled as charged counts instead of the word', async () => {
  const { batch, call, letGo } = await inDoubt({ completed: false });
  await settleDoubt(client, call, { verdict: 'charged', usd: '0.01', payAgain: false }, ANA);
  await letGo();

  expect(await spent(batch)).toEqual(everywhere(COST));
});

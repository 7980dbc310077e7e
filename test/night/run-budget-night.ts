import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import Big from 'big.js';
import type { Pool } from 'pg';
import { openPool } from '../../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { readBillAlone } from '../../src/rehearsal/figures.ts';
import { loadRehearsalBatch } from '../../src/rehearsal/rehearsal-batch.ts';
import { runCommand } from '../support/command.ts';

/** What a question costs at the simulated provider's prices. */
export const USD_PER_QUESTION = new Big('0.41');
const CALLS_PER_QUESTION = 25;
/** Dear enough that a call's worst case is at least five times its cost, for root and sub-calls alike. */
const DEAR_HOLDS = { max_tokens: '6000', max_subcall_tokens: '13000' };

export interface BudgetNight {
  budget: Big;
  /** The provider's own word. */
  billed: Big;
  /** Smallest worst case of a charged call over its cost. */
  holdRatio: number;
  completed: number;
  /** Tasks that neither ended nor wait for money or for their turn. */
  stuck: number;
  state: string;
  reason: string;
  /** The audit view's proof of invariant 7. */
  proofHolds: boolean;
  /** After a person has raised the budget and resumed: completed tasks, dollars and charges of the whole night. */
  afterwards: { completed: number; billed: Big; charges: number };
}

/**
 * One night whose budget allows half of it, on `slots` slots, by the commands a person gives; then the person raises the budget, and the
 * rest is run.
 */
export async function runBudgetNight(
  folder: string,
  tasks: number,
  workers: number,
  concurrency: number,
): Promise<BudgetNight> {
  const home = join(folder, 'home');
  const bill = join(folder, 'bill.jsonl');
  mkdirSync(folder, { recursive: true });
  const { url } = await startEmbedded(home);
  await migrate(url);
  const pool = openPool({ url, applicationName: 'madrugada budget night', max: 2 });
  const madrugada = (...words: string[]) => runCommand(words, { folder, environment: { MADRUGADA_HOME: home } });
  const budget = USD_PER_QUESTION.times(tasks).div(2);
  const said = ['--by', 'ana', '--reason', 'the night is worth it'];
  const run = () =>
    madrugada(
      'run',
      'rehearsal',
      '--simulate',
      '--bill',
      bill,
      '--json',
      '--workers',
      String(workers),
      '--concurrency',
      String(concurrency),
    );
  try {
    const key = await loadRehearsalBatch(url, { tasks, crashAt: 215, leaseSeconds: 600, agentOptions: DEAR_HOLDS });
    await madrugada('batch', 'budget', key, budget.toFixed(), ...said);
    await run();
    const figures = await readFigures(pool, key);
    const { usd: billed } = await readBillAlone(bill);
    await madrugada('batch', 'budget', key, USD_PER_QUESTION.times(tasks * 2).toFixed(), ...said);
    await madrugada('batch', 'resume', key, ...said);
    await run();
    const { usd, calls: charges } = await readBillAlone(bill);
    const afterwards = { completed: (await readFigures(pool, key)).completed, billed: usd, charges };
    return { budget, billed, ...figures, afterwards };
  } finally {
    await pool.end();
    await stopEmbedded(home);
  }
}

async function readFigures(pool: Pool, key: string) {
  const { rows } = await pool.query<{
    completed: number;
    stuck: number;
    state: string;
    reason: string | null;
    proofHolds: boolean;
    holdRatio: string;
  }>(
    `SELECT count(*) FILTER (WHERE t.state = 'completed')::integer AS completed,
            count(*) FILTER (WHERE t.state = 'running' OR t.state = 'failed' OR (t.state = 'pending' AND t.lease_token > 0
                               AND t.waiting_for IS DISTINCT FROM 'budget'))::integer AS stuck,
            b.state, b.stop_reason AS reason, (SELECT a.holds FROM madrugada.audit_budget a WHERE a.batch_key = b.batch_key) AS "proofHolds",
            (SELECT min(i.worst_case_usd / o.cost_usd) FROM madrugada.call_intent i
               JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch)
              WHERE i.batch_key = b.batch_key AND o.kind = 'charged')::text AS "holdRatio"
       FROM madrugada.batch b JOIN madrugada.task t ON t.batch_key = b.batch_key
      WHERE b.batch_key = $1 GROUP BY b.id, b.version`,
    [key],
  );
  const [row] = rows;
  if (row === undefined) throw new Error(`no batch ${key}`);
  return { ...row, reason: row.reason ?? '', holdRatio: Number(row.holdRatio) };
}

/** What is not as it must be, in words. */
export function problemsOf(night: BudgetNight, tasks: number): string[] {
  const { budget, billed, afterwards } = night;
  const share = billed.div(budget);
  return [
    ...(billed.gt(budget) ? [`US$ ${billed.toFixed()} were paid, and the budget was US$ ${budget.toFixed()}`] : []),
    ...(share.lt('0.97') ? [`only ${share.times(100).toFixed(1)}% of the budget could be used`] : []),
    ...(night.holdRatio < 5 ? [`holds were only ${night.holdRatio.toFixed(1)} times the cost`] : []),
    ...(night.stuck > 0 ? [`${night.stuck} tasks are stuck`] : []),
    ...(night.state === 'stopped' && night.reason.includes('budget')
      ? []
      : [`the batch is ${night.state}: ${night.reason}`]),
    ...(night.proofHolds ? [] : ['settled + held <= budget is not proved by the audit']),
    ...(afterwards.completed === tasks
      ? []
      : [`only ${afterwards.completed} tasks were completed after the budget was raised`]),
    ...(afterwards.billed.eq(USD_PER_QUESTION.times(tasks)) && afterwards.charges === tasks * CALLS_PER_QUESTION
      ? []
      : [`in the end ${afterwards.charges} charges for US$ ${afterwards.billed.toFixed()}`]),
  ];
}

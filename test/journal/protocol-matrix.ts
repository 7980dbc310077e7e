import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { resumeBatch } from '../../src/batch/change-batch.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch, type TaskRow, taskOf } from '../support/attempts.ts';
import { type RunningCommand, startCommand } from '../support/command.ts';
import type { TestDatabase } from '../support/database.ts';
import { type Proof, proofOf, stateOf } from '../support/money.ts';
import { type Exchange, startScriptedProvider, streamEvents } from '../support/scripted-provider.ts';
import { until } from '../support/until.ts';

/** Every point of the call protocol, at its passage for the second of three calls. */
export const POINTS = [
  'budget.draw.before@2',
  'budget.draw.after@2',
  'journal.intent.before@2',
  'journal.group.before@3',
  'journal.group.after@3',
  'journal.intent.after@2',
  'journal.outcome.before@2',
  'journal.group.before@4',
  'journal.group.after@4',
  'journal.outcome.after@2',
] as const;

interface EndingKind {
  /** What the provider does when the second question first reaches it. Returns whether it charges for that. */
  strike(exchange: Exchange): boolean;
  /** The agent reads streams. */
  streams?: boolean;
  /** The task fails for good. */
  fails?: boolean;
}

const EVENTS = streamEvents(2, 'answer to two');
const SOON = { 'retry-after': '0.001' };

/** Every kind of ending a dispatch can have. */
export const ENDINGS = {
  answer: { strike: charged((exchange) => exchange.message()) },
  stream: { strike: charged((exchange) => exchange.stream()), streams: true },
  refused: { strike: free((exchange) => exchange.refuse(529, 'overloaded_error', SOON)) },
  'refused in stream': {
    strike: free((exchange) => {
      exchange.openStream();
      void exchange.send('event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"no"}}\n\n');
      exchange.end();
    }),
    streams: true,
  },
  malformed: { strike: free((exchange) => exchange.refuse(413, 'request_too_large')), fails: true },
  account: { strike: free((exchange) => exchange.refuse(401, 'authentication_error')) },
  dropped: { strike: charged((exchange) => exchange.cut()) },
  'stream cut': {
    strike: charged((exchange) => {
      exchange.openStream();
      void exchange.send(EVENTS.slice(0, 1).join('')).then(() => exchange.cut());
    }),
    streams: true,
  },
  stalled: { strike: charged(() => undefined) },
} satisfies Record<string, EndingKind>;
export type EndingName = keyof typeof ENDINGS;

function charged(act: (exchange: Exchange) => void): EndingKind['strike'] {
  return (exchange) => {
    act(exchange);
    return true;
  };
}

function free(act: (exchange: Exchange) => void): EndingKind['strike'] {
  return (exchange) => {
    act(exchange);
    return false;
  };
}

/** What a task whose worker was killed at a point, in a dispatch with an ending, came to after another worker took it. */
export interface Cell {
  isKilled: boolean;
  task: TaskRow;
  /** Tags on the provider's bill: one that stands there twice was paid twice. */
  bill: string[];
  dispatches: { seq: number; tag: string; charged: boolean; inDoubt: boolean; answers: boolean }[];
  money: Proof;
}

/** Plays one cell of the matrix in processes of its own. */
export async function playCell(db: TestDatabase, point: string, name: EndingName): Promise<Cell> {
  const ending: EndingKind = ENDINGS[name];
  const provider = await startScriptedProvider();
  const bill: string[] = [];
  let struck = false;
  provider.script = (exchange) => {
    const strikes = exchange.prompt === 'two' && (!struck || ending.fails);
    if (strikes) struck = true;
    const isCharged = strikes ? ending.strike(exchange) : answer(exchange);
    if (isCharged) bill.push(String(exchange.headers['x-madrugada-tag']));
  };
  const agent = fileURLToPath(
    new URL(`../support/agents/${ending.streams ? 'three-streams' : 'three-questions'}.ts`, import.meta.url),
  );
  const batch = await loadTestBatch(db, { agent, budgetUsd: '100' });
  const [failpoint, passage] = point.split('@');
  const first = startWorker(db, batch, `${batch}/1`, provider.url, `${failpoint}:kill@${passage}`);
  const { signal } = await first.result;
  const second = startWorker(db, batch, `${batch}/2`, provider.url);
  try {
    await until(`the task of ${point}, ${name}, is done`, async () => {
      if ((await stateOf(db, batch)).state === 'stopped') await resume(db, batch); // the account was refused
      return ['completed', 'failed'].includes((await taskOf(db, batch)).state);
    });
    return {
      isKilled: signal === 'SIGKILL',
      task: await taskOf(db, batch),
      bill,
      dispatches: await dispatchesOf(db, batch),
      money: await proofOf(db, batch),
    };
  } finally {
    second.process.kill('SIGTERM');
    await second.result;
    await provider.close();
  }
}

function answer(exchange: Exchange): boolean {
  if (exchange.isStreamWanted) exchange.stream();
  else exchange.message();
  return true;
}

function startWorker(db: TestDatabase, batch: string, slot: string, url: string, failpoint = ''): RunningCommand {
  return startCommand(['worker', '--slot', slot, '--batch', batch], {
    environment: {
      DATABASE_URL: db.url,
      ANTHROPIC_BASE_URL: url,
      MADRUGADA_FAILPOINT: failpoint,
      MADRUGADA_DISPATCH_SECONDS: '3',
    },
  });
}

async function resume(db: TestDatabase, batch: string): Promise<void> {
  const client: Client = await openClient({ url: db.url, as: 'operator', applicationName: 'madrugada test resume' });
  try {
    await resumeBatch(client, batch, { by: 'ana', reason: 'the test' });
  } finally {
    await client.end();
  }
}

async function dispatchesOf({ pool }: TestDatabase, batch: string): Promise<Cell['dispatches']> {
  const { rows } = await pool.query<Cell['dispatches'][number]>(
    `SELECT i.seq, i.tag, coalesce(bool_or(o.kind = 'charged'), false) AS charged, coalesce(bool_or(o.answers), false) AS answers,
            NOT coalesce(bool_or(madrugada.settles(o.kind)), false) AS "inDoubt"
       FROM madrugada.call_intent i LEFT JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch)
      WHERE i.batch_key = $1 GROUP BY i.seq, i.dispatch, i.tag ORDER BY i.seq, i.dispatch`,
    [batch],
  );
  return rows;
}

/** What of bill, journal, holds and answers does not agree, in words. */
export function problemsOf({ isKilled, task, bill, dispatches, money }: Cell, name: EndingName): string[] {
  const ending: EndingKind = ENDINGS[name];
  const billed = (tag: string) => bill.filter((other) => other === tag).length;
  const problems = isKilled ? [] : ['the first worker was not killed'];
  const expected = ['answer to one', 'answer to two', 'answer to three'];
  if (ending.fails ? task.state !== 'failed' : JSON.stringify(task.result) !== JSON.stringify(expected))
    problems.push(`the task is ${task.state} with ${JSON.stringify(task.result)}`);
  for (const tag of bill)
    if (!dispatches.some((one) => one.tag === tag)) problems.push(`the bill has ${tag}, and no intent has it`);
  for (const { seq, tag, charged, inDoubt } of dispatches) {
    if (billed(tag) > 1) problems.push(`a dispatch of call ${seq} was charged ${billed(tag)} times`);
    if (charged && billed(tag) === 0) problems.push(`call ${seq} is charged in the journal, and not on the bill`);
    if (!charged && !inDoubt && billed(tag) > 0)
      problems.push(`call ${seq} is on the bill, and the journal says it cost nothing`);
  }
  for (const seq of new Set(dispatches.map((one) => one.seq))) {
    const own = dispatches.filter((one) => one.seq === seq);
    const paid = own.reduce((sum, one) => sum + billed(one.tag), 0);
    if (paid > 1 && !own.some((one) => one.inDoubt))
      problems.push(`call ${seq} was paid twice without being named in doubt`);
    if (paid > 2) problems.push(`call ${seq} was paid ${paid} times`);
  }
  if (!money.holds) problems.push(`holds and journal differ: ${JSON.stringify(money)}`);
  return problems;
}

/** A cell in short: charges, and how many of them for a call that was paid before and is named; `?` for a doubt that was not charged. */
export function shortly({ bill, dispatches }: Cell): string {
  const calls = new Set(dispatches.filter(({ tag }) => bill.includes(tag)).map(({ seq }) => seq)).size;
  const twice = bill.length - calls;
  const doubts = dispatches.filter(({ tag, inDoubt }) => inDoubt && !bill.includes(tag)).length;
  return `${bill.length}${twice > 0 ? ` (${twice} twice)` : ''}${'?'.repeat(doubts)}`;
}

import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { resumeBatch } from '../../src/batch/change-batch.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch, type TaskRow, taskOf } from '../support/attempts.ts';
import { type RunningCommand, startCommand } from '../support/command.ts';
import type { TestDatabase } from '../support/database.ts';
import { limitBatch, type Proof, proofOf, stateOf } from '../support/money.ts';
import { type Exchange, messageOf, startScriptedProvider, streamEvents } from '../support/scripted-provider.ts';
import { until } from '../support/until.ts';

/** Every point of the call protocol, at its passage for the second of three calls. */
const POINTS = [
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

/** Points that only some endings come to. */
const FURTHER: [string, EndingName[]][] = [
  ['journal.look_up.before@1', ['recovered', 'not received']],
  ['journal.look_up.after@1', ['recovered', 'not received']],
  ['journal.stop.before@1', ['account']],
  ['journal.stop.after@1', ['account']],
  ['lease.end.before@1', ['malformed', 'account', 'over budget']],
  ['lease.end.after@1', ['malformed', 'account', 'over budget']],
  ['lease.complete.before@1', ['answer', 'dropped', 'recovered']],
  ['lease.complete.after@1', ['answer', 'dropped', 'recovered']],
];

/** Every point with the endings of which it is on the way. */
export function pointsWithEndings(): [string, EndingName[]][] {
  const all = Object.keys(ENDINGS) as EndingName[];
  return [...POINTS.map((point): [string, EndingName[]] => [point, all]), ...FURTHER];
}

/** Every point with one of its endings, and every ending at one point at least: what the suite has time for. */
export function coveringPoints(): [string, EndingName[]][] {
  return pointsWithEndings().map(([point, endings], index) => [
    point,
    endings.slice(index % endings.length).slice(0, 1),
  ]);
}

interface EndingKind {
  /** What the provider does when the second question first reaches it. Returns whether it charges for that. */
  strike(exchange: Exchange): boolean;
  /** The agent reads streams. */
  streams?: boolean;
  /** The task fails for good. */
  fails?: boolean;
  /** The provider can be asked what became of a dispatch: nothing may be paid twice. */
  isLookedUp?: boolean;
  /** What the batch may spend until its task has waited for money; then a person raises it. */
  budgetUsd?: string;
}

/** Five cells at a time start ten processes, perhaps on a machine that has other things to do. */
const WIDE_MS = 150_000;

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
  recovered: { strike: charged((exchange) => exchange.cut()), isLookedUp: true },
  'not received': { strike: free((exchange) => exchange.cut()), isLookedUp: true },
  'over budget': { strike: charged((exchange) => exchange.message()), budgetUsd: '0.0007' },
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
  /** The task was seen to wait for money, or its batch to be stopped for lack of it. */
  hasLackedMoney: boolean;
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
    if (exchange.method === 'GET') return lookedUp(exchange, bill);
    const strikes = exchange.prompt === 'two' && (!struck || ending.fails);
    if (strikes) struck = true;
    const isCharged = strikes ? ending.strike(exchange) : answer(exchange);
    if (isCharged) bill.push(String(exchange.headers['x-madrugada-tag']));
  };
  const agent = fileURLToPath(
    new URL(`../support/agents/${ending.streams ? 'three-streams' : 'three-questions'}.ts`, import.meta.url),
  );
  const batch = await loadTestBatch(db, { agent, budgetUsd: ending.budgetUsd ?? '100' });
  const [failpoint, passage] = point.split('@');
  const environment = { ANTHROPIC_BASE_URL: provider.url, ...(ending.isLookedUp && lookUpAt(provider.url)) };
  const first = startWorker(db, batch, `${batch}/1`, {
    ...environment,
    MADRUGADA_FAILPOINT: `${failpoint}:kill@${passage}`,
  });
  let isOver = false;
  void first.result.then(() => {
    isOver = true;
  });
  let second: RunningCommand | undefined;
  let hasLackedMoney = false;
  /** What a person would do meanwhile. Returns the state of the task. */
  const tendBatch = async () => {
    const { state } = await stateOf(db, batch);
    const task = await taskOf(db, batch);
    const lacksMoney = ending.budgetUsd !== undefined && (state === 'stopped' || task.waiting_for === 'budget');
    if (lacksMoney) await limitBatch(db, batch, { budgetUsd: '100' });
    hasLackedMoney ||= lacksMoney;
    if (state === 'stopped') await resume(db, batch);
    return task.state;
  };
  try {
    await until(
      `the worker of ${point}, ${name}, is killed`,
      async () => {
        await tendBatch();
        return isOver;
      },
      WIDE_MS,
    );
    second = startWorker(db, batch, `${batch}/2`, environment);
    await until(
      `the task of ${point}, ${name}, is done`,
      async () => ['completed', 'failed'].includes(await tendBatch()),
      WIDE_MS,
    );
    return {
      isKilled: (await first.result).signal === 'SIGKILL',
      hasLackedMoney,
      task: await taskOf(db, batch),
      bill,
      dispatches: await dispatchesOf(db, batch),
      money: await proofOf(db, batch),
    };
  } finally {
    first.process.kill('SIGKILL');
    await first.result;
    second?.process.kill('SIGTERM');
    await second?.result;
    await provider.close();
  }
}

function answer(exchange: Exchange): boolean {
  if (exchange.isStreamWanted) exchange.stream();
  else exchange.message();
  return true;
}

const lookUpAt = (url: string) => ({ MADRUGADA_LOOK_UP: `${url}/dispatches/{tag}` });

/** What the provider has answered and charged it can say again; anything else it has not received. */
function lookedUp(exchange: Exchange, bill: string[]): void {
  const tag = exchange.path.slice('/dispatches/'.length);
  const number = bill.indexOf(tag) + 1;
  const state = number > 0 ? 'answered' : 'not-received';
  const text = `answer to ${['one', 'two', 'three'][number - 1]}`; // nothing is charged twice where this is asked
  exchange.respond(200, number > 0 ? JSON.stringify(messageOf(number, text)) : '{}', {
    'content-type': 'application/json',
    'request-id': `req_${number}`,
    'x-dispatch-state': state,
    'x-dispatch-status': '200',
  });
}

function startWorker(
  db: TestDatabase,
  batch: string,
  slot: string,
  environment: Record<string, string>,
): RunningCommand {
  return startCommand(['worker', '--slot', slot, '--batch', batch], {
    environment: { DATABASE_URL: db.url, MADRUGADA_DISPATCH_SECONDS: '3', ...environment },
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
    `SELECT i.seq, i.tag, coalesce(bool_or(o.kind IN ('charged', 'recovered')), false) AS charged, coalesce(bool_or(o.answers), false) AS answers,
            NOT coalesce(bool_or(madrugada.settles(o.kind)), false) AS "inDoubt"
       FROM madrugada.call_intent i LEFT JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch)
      WHERE i.batch_key = $1 GROUP BY i.seq, i.dispatch, i.tag ORDER BY i.seq, i.dispatch`,
    [batch],
  );
  return rows;
}

/** What of bill, journal, holds and answers does not agree, in words. */
export function problemsOf(
  { isKilled, hasLackedMoney, task, bill, dispatches, money }: Cell,
  name: EndingName,
): string[] {
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
    if (paid > 1 && ending.isLookedUp) problems.push(`call ${seq} was paid again, though it could be looked up`);
    if (paid > 2) problems.push(`call ${seq} was paid ${paid} times`);
  }
  if (ending.budgetUsd !== undefined && !hasLackedMoney) problems.push('the task never waited for money');
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

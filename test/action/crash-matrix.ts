import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Pool } from 'pg';
import { onTestFinished } from 'vitest';
import { hashOf } from '../../src/action/kinds/file-content.ts';
import type { Kind, MatrixTargets, MatrixTask, Mode } from '../support/agents/action-matrix.ts';
import { allowUnrehearsed } from '../support/allow-unrehearsed.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { type RunningCommand, startCommand } from '../support/command.ts';
import type { TestDatabase } from '../support/database.ts';
import { moveClock } from '../support/move-clock.ts';
import { testFolder } from '../support/test-folder.ts';
import { until } from '../support/until.ts';
import { header, MailServer } from './kinds/mail-server.ts';
import { ResourceServer } from './kinds/resource-server.ts';

export const KINDS: readonly Kind[] = ['postgres', 'file', 'http', 'email'];
export const MODES: readonly Mode[] = ['execute', 'verify', 'rollback'];

/** Points of an execution, in its order: the engine's own, passed by every kind; those of one kind are put in between. */
const EXECUTION = [
  'action.propose.before@1',
  'action.propose.after@1',
  'action.precondition.after@1',
  'action.begin.after@1',
  'action.execute.after@1',
  'action.record.after@1',
  'action.verify.after@1',
  'action.conclude.before@1',
  'action.conclude.after@1',
];
/** Points of an undo. `saga`: only where it is the task's failure that asks for it. */
const UNDO = [
  'action.undo.begin.after@1',
  'action.undo.after@1',
  'action.undo.verify.after@1',
  'action.conclude.before@2',
  'action.conclude.after@2',
];
const SAGA = 'action.saga.next@1';

const OWN_EXECUTION: Partial<Record<Kind, string[]>> = {
  postgres: ['locked', 'key', 'written', 'committed'].map((point) => `action.postgres.${point}@1`),
  file: ['kept', 'draft', 'checked', 'renamed', 'synced'].map((point) => `action.file.${point}@1`),
};
const OWN_UNDO: Partial<Record<Kind, string[]>> = {
  postgres: ['written', 'committed'].map((point) => `action.postgres.${point}@2`),
  file: [
    ...['draft', 'checked', 'renamed', 'synced'].map((point) => `action.file.${point}@2`),
    'action.file.aside@1',
    'action.file.restored@1',
  ],
};

/** Every point at which an action of this kind can be cut off in this mode, each with its passage. */
export function pointsOf(kind: Kind, mode: Mode): string[] {
  const execution = [...EXECUTION, ...(OWN_EXECUTION[kind] ?? [])];
  // an effect that is found to be wrong is not concluded before its undo is
  const undo =
    mode === 'verify'
      ? UNDO.map((point) =>
          point.replace('conclude.before@2', 'conclude.before@1').replace('conclude.after@2', 'conclude.after@1'),
        )
      : UNDO;
  if (mode === 'execute') return execution;
  const own = OWN_UNDO[kind] ?? [];
  return [...new Set([...execution, ...(mode === 'rollback' ? [SAGA] : []), ...undo, ...own])];
}

/** Where the worker dies, and where the one dies that resumes, if it does. */
export interface Case {
  kind: Kind;
  mode: Mode;
  points: string[];
}

/** Cases in which the one that resumes dies, too. */
export const TWICE: readonly Case[] = [
  { kind: 'postgres', mode: 'execute', points: ['action.execute.after@1', 'action.verify.after@1'] },
  { kind: 'file', mode: 'rollback', points: ['action.file.renamed@1', 'action.undo.verify.after@1'] },
  { kind: 'http', mode: 'verify', points: ['action.undo.begin.after@1', 'action.undo.after@1'] },
  { kind: 'email', mode: 'execute', points: ['action.begin.after@1', 'action.execute.after@1'] },
];

/** Every point of every kind in every mode. */
export function wholeMatrix(): Case[] {
  return KINDS.flatMap((kind) =>
    MODES.flatMap((mode) => pointsOf(kind, mode).map((point): Case => ({ kind, mode, points: [point] }))),
  );
}

/** Every point once, spread over kinds and modes, and every kind in every mode. */
export function coveringCases(): Case[] {
  const all = wholeMatrix();
  const pointOf = ({ points }: Case) => points[0]?.split('@')[0];
  const cases = [...new Set(all.map(pointOf))].flatMap((point, n) => {
    const able = all.filter((one) => pointOf(one) === point);
    return able[(n * 7) % able.length] ?? [];
  });
  const has = (kind: Kind, mode: Mode) => cases.some((one) => one.kind === kind && one.mode === mode);
  for (const kind of KINDS)
    for (const mode of MODES) if (!has(kind, mode)) cases.push({ kind, mode, points: ['action.execute.after@1'] });
  return cases;
}

/** What came of a case. */
export interface Cell extends Case {
  /** Points that have struck. */
  struck: string[];
  /** How often the target has taken the effect, and how often it was taken back. */
  effects: number;
  undone: number;
  /** The target is as it was before. */
  isAsBefore: boolean;
  action: { state: string; why: string | null; execution: number; undo: number } | undefined;
  task: { state: string; waitingFor: string | null; result: unknown };
  openAlerts: string[];
}

let stages = 0;

/** The four targets, and how each tells what was done to it. */
class Targets {
  readonly folder: string;
  readonly #http: ResourceServer;
  readonly #mail: MailServer;
  readonly #bank: Pool;
  readonly #mailboxUrl: string;
  /** The number of the first account. */
  readonly #accounts: number;

  private constructor(folder: string, http: ResourceServer, mail: MailServer, mailboxUrl: string, bank: Pool) {
    this.folder = folder;
    this.#http = http;
    this.#mail = mail;
    this.#mailboxUrl = mailboxUrl;
    this.#bank = bank;
    this.#accounts = stages * 10_000;
    stages += 1;
  }

  static async start(bank: Pool): Promise<Targets> {
    const mail = await MailServer.start();
    return new Targets(testFolder(), await ResourceServer.start(), mail, await startMailbox(mail), bank);
  }

  environment(): Omit<MatrixTargets, 'actions'> {
    return {
      folder: this.folder,
      httpUrl: this.#http.url,
      smtpPort: this.#mail.port,
      mailboxUrl: this.#mailboxUrl,
    };
  }

  /** Makes what an action is to change, and returns its arguments. `n` is the case's number. */
  async prepare({ kind, points }: Case, n: number): Promise<Record<string, unknown>> {
    switch (kind) {
      case 'postgres': {
        const [from, to] = [this.#accounts + 2 * n, this.#accounts + 2 * n + 1];
        await this.#bank.query('INSERT INTO bank.account (id, balance) VALUES ($1, 1000), ($2, 50)', [from, to]);
        return { from, to, amount: '300.00' };
      }
      case 'file': {
        const path = this.#pathOf(n);
        mkdirSync(join(path, '..'));
        if (isNewFile(points)) return { path, content: 'after', replaces: null };
        writeFileSync(path, 'before');
        return { path, content: 'after', replaces: hashOf(Buffer.from('before')) };
      }
      case 'http':
        return { account: `account ${n}`, amount: 300 };
      case 'email':
        return { to: `customer${n}@example.com`, subject: `notice ${n}` };
    }
  }

  /** What a failpoint of a kind's own is keyed by. */
  keyOf(kind: Kind, n: number, actionKey: string): string {
    return kind === 'file' ? this.#pathOf(n) : actionKey;
  }

  async look(one: Case, n: number): Promise<Pick<Cell, 'effects' | 'undone' | 'isAsBefore'>> {
    switch (one.kind) {
      case 'postgres':
        return this.#lookAtBank(n);
      case 'file':
        return this.#lookAtFile(one, n);
      case 'http':
        return this.#lookAtServer(n);
      case 'email':
        return this.#lookAtMailbox(n);
    }
  }

  async #lookAtBank(n: number) {
    const { rows } = await this.#bank.query<{ effects: number; undone: number; balance: string }>(
      `SELECT (SELECT count(*)::int FROM bank.movement WHERE account = a.id AND amount < 0) AS effects,
              (SELECT count(*)::int FROM bank.movement WHERE account = a.id AND amount > 0) AS undone, a.balance
         FROM bank.account a WHERE a.id = $1`,
      [this.#accounts + 2 * n],
    );
    const [{ effects, undone, balance } = { effects: -1, undone: -1, balance: '' }] = rows;
    return { effects, undone, isAsBefore: balance === '1000.00' };
  }

  /** A file shows how it is, not how often it was written: what had begun, and is not there, was undone. */
  #lookAtFile({ points }: Case, n: number) {
    const path = this.#pathOf(n);
    const content = existsSync(path) ? readFileSync(path, 'utf8') : undefined;
    const kept = join(path, '..', '.madrugada');
    const hasBegun = existsSync(kept) && readdirSync(kept).some((name) => name.endsWith('.begun'));
    const isAsBefore = content === (isNewFile(points) ? undefined : 'before');
    if (!isAsBefore && content !== 'after') return { effects: -1, undone: 0, isAsBefore };
    return { effects: hasBegun ? 1 : 0, undone: hasBegun && isAsBefore ? 1 : 0, isAsBefore };
  }

  #lookAtServer(n: number) {
    const count = (path: string) =>
      [...this.#http.resources].filter(
        ([name, { text }]) => name.startsWith(path) && JSON.parse(text).account === `account ${n}`,
      ).length;
    const [effects, undone] = [count('/payments/'), count('/refunds/')];
    return { effects, undone, isAsBefore: effects === undone };
  }

  #lookAtMailbox(n: number) {
    const count = (subject: string) => this.#mail.kept.filter(({ raw }) => header(raw, 'Subject') === subject).length;
    const [effects, undone] = [count(`notice ${n}`), count(`Correction: notice ${n}`)];
    return { effects, undone, isAsBefore: effects === undone };
  }

  #pathOf(n: number): string {
    return join(this.folder, `case-${n}`, 'report.txt');
  }
}

/** Only what was not there before is removed by the undo. */
function isNewFile(points: readonly string[]): boolean {
  return points.some((point) => point.includes('aside'));
}

/** Where the mails that a server has taken are looked up by their ids. */
async function startMailbox(mail: MailServer): Promise<string> {
  const server = createServer(({ url = '' }, response) => {
    const found = mail.withId(new URL(url, 'http://localhost').searchParams.get('id') ?? '');
    response.writeHead(found.length > 0 ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ found: found.length }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Enough for every attempt that is lost before anything of it is on record, and for one that fails. */
const MAX_ATTEMPTS = 4;
const AGENT = fileURLToPath(new URL('../support/agents/action-matrix.ts', import.meta.url));

/**
 * Plays cases one after the other, as tasks of one batch: a worker process dies in the first, the next one resumes it, begins the second and
 * dies there, and so on. Every process is a real one, and dies by SIGKILL.
 */
export async function playCases(db: TestDatabase, bank: TestDatabase, cases: readonly Case[]): Promise<Cell[]> {
  const { strikes, batch, environment, targets } = await openStage(db, bank, cases, 'kill');
  await runUntilDone(db, batch, environment, strikes.length + 2);
  return Promise.all(
    cases.map(async (one, index) => ({
      ...one,
      struck: strikes.filter(({ n, mark }) => n === index && existsSync(mark)).map(({ point }) => point),
      ...(await targets.look(one, index)),
      ...(await onRecord(db, batch, index)),
    })),
  );
}

/** Targets, a batch with a task for each case, and the environment in which its workers are struck. */
async function openStage(db: TestDatabase, bank: TestDatabase, cases: readonly Case[], blow: 'kill' | 'stop') {
  const targets = await Targets.start(bank.pool);
  const tasks: MatrixTask[] = [];
  for (const [n, one] of cases.entries())
    tasks.push({ name: nameOf(n), kind: one.kind, mode: one.mode, arguments: await targets.prepare(one, n) });
  const options = { agent: AGENT, inputs: tasks, maxAttempts: MAX_ATTEMPTS, stopAfterFailures: 10_000 };
  const batch = await allowUnrehearsed(db, await loadTestBatch(db, options));
  const strikes = await strikesOf(db, batch, { cases, tasks, targets, blow });
  const actions = tasks.map(({ name, kind, mode }) => ({ name, kind, mode }));
  const matrix = (more: Partial<MatrixTargets>) => JSON.stringify({ ...targets.environment(), actions, ...more });
  const environment = {
    DATABASE_URL: db.url,
    BANK_URL: bank.url,
    MATRIX: matrix({}),
    MADRUGADA_FAILPOINT: strikes.map(({ failpoint }) => failpoint).join(','),
  };
  return { targets, batch, strikes, environment, matrix };
}

function startWorker(batch: string, slot: string, environment: Record<string, string>): RunningCommand {
  return startCommand(['worker', '--slot', `${batch}/${slot}`, '--batch', batch], { environment });
}

function nameOf(n: number): string {
  return `case-${n}`;
}

interface Strike {
  n: number;
  point: string;
  failpoint: string;
  mark: string;
}

/**
 * Freezes the executor of one action at a point, lets another worker take over when lease and deadline have passed, and lets the first one go on
 * once its own deadline has, too.
 */
export async function playFrozen(db: TestDatabase, bank: TestDatabase, one: Case): Promise<Cell> {
  const stage = await openStage(db, bank, [one], 'stop');
  const { strikes, batch, environment, targets } = stage;
  const frozen = startWorker(batch, 'frozen', {
    ...environment,
    MATRIX: stage.matrix({ executeWithin: FROZEN_WITHIN_MS }),
  });
  let taker: RunningCommand | undefined;
  try {
    await until('the executor is frozen', () => strikes.every(({ mark }) => existsSync(mark)) && isFrozen(frozen));
    const wakesAt = performance.now() + FROZEN_WITHIN_MS + 500;
    await moveClock(db, '11 minutes');
    taker = startWorker(batch, 'taker', { ...environment, MADRUGADA_FAILPOINT: '' });
    await until('the action has come to an end without it', () => isDone(db.pool, batch));
    await delay(Math.max(0, wakesAt - performance.now()));
  } finally {
    frozen.process.kill('SIGCONT');
    frozen.process.kill('SIGTERM'); // it ends once it has seen what became of its task
    taker?.process.kill('SIGTERM');
    await Promise.all([frozen.result, taker?.result]);
  }
  const struck = strikes.filter(({ mark }) => existsSync(mark)).map(({ point }) => point);
  return { ...one, struck, ...(await targets.look(one, 0)), ...(await onRecord(db, batch, 0)) };
}

const FROZEN_WITHIN_MS = 5_000;

/** All its threads have come to a stop. */
function isFrozen({ process }: RunningCommand): boolean {
  return /^State:\tT/m.test(readFileSync(`/proc/${process.pid}/status`, 'utf8'));
}

/** Each point strikes once, whatever process passes it; the mark is made as it does. */
async function strikesOf(
  { pool }: TestDatabase,
  batch: string,
  {
    cases,
    tasks,
    targets,
    blow,
  }: { cases: readonly Case[]; tasks: readonly MatrixTask[]; targets: Targets; blow: 'kill' | 'stop' },
): Promise<Strike[]> {
  const [batchId] = batch.split(':');
  const { rows } = await pool.query<{ key: string }>(
    `SELECT madrugada.sha256_hex(madrugada.action_content($1, t.n::text, t.task ->> 'name', t.task -> 'arguments') || '/1') AS key
       FROM jsonb_array_elements($2::jsonb) WITH ORDINALITY t (task, n) ORDER BY t.n`,
    [batchId, JSON.stringify(tasks)],
  );
  return cases.flatMap(({ kind, points }, n) =>
    points.map((point, index) => {
      const [name = '', passage] = point.split('@');
      const isOwn = /^action\.(postgres|file)\./.test(name);
      const key = isOwn ? targets.keyOf(kind, n, rows[n]?.key ?? '') : nameOf(n);
      const mark = join(targets.folder, `struck-${n}-${index}`);
      return { n, point, mark, failpoint: `${name}[${key}]:${blow}(${mark})@${passage}` };
    }),
  );
}

/** Starts a worker process after the other until there is nothing more to do, or only for people. */
async function runUntilDone(
  { pool }: TestDatabase,
  batch: string,
  environment: Record<string, string>,
  most: number,
): Promise<void> {
  for (let n = 1; n <= most; n += 1) {
    const worker = startWorker(batch, String(n), environment);
    let isOver = false;
    void worker.result.then(() => {
      isOver = true;
    });
    while (!isOver && !(await isDone(pool, batch))) await delay(25);
    const wasOver = isOver;
    worker.process.kill('SIGTERM');
    const { signal, stderr } = await worker.result;
    if (!wasOver) return;
    if (signal !== 'SIGKILL') throw new Error(`worker ${n} ended by itself: ${stderr.slice(-2000)}`);
  }
  throw new Error(`after ${most} workers batch ${batch} is still not done`);
}

async function isDone(pool: Pool, batch: string): Promise<boolean> {
  const { rows } = await pool.query(
    `SELECT FROM madrugada.task WHERE batch_key = $1 AND state IN ('pending', 'running') AND waiting_for IS DISTINCT FROM 'approval' LIMIT 1`,
    [batch],
  );
  return rows.length === 0;
}

async function onRecord(
  { pool }: TestDatabase,
  batch: string,
  n: number,
): Promise<Pick<Cell, 'action' | 'task' | 'openAlerts'>> {
  const { rows: actions } = await pool.query<NonNullable<Cell['action']>>(
    'SELECT state, why, execution, undo FROM madrugada.action WHERE batch_key = $1 AND name = $2 ORDER BY id',
    [batch, nameOf(n)],
  );
  if (actions.length > 1) throw new Error(`case ${n} has ${actions.length} actions`);
  const { rows: tasks } = await pool.query<Cell['task']>(
    'SELECT state, waiting_for AS "waitingFor", result FROM madrugada.task WHERE batch_key = $1 AND position = $2',
    [batch, n + 1],
  );
  const { rows: alerts } = await pool.query<{ kind: string }>(
    `SELECT l.kind FROM madrugada.alert l JOIN madrugada.action a ON a.id = l.action_id
      WHERE a.batch_key = $1 AND a.name = $2 AND l.acknowledged_at IS NULL ORDER BY l.id`,
    [batch, nameOf(n)],
  );
  const [task] = tasks;
  if (task === undefined) throw new Error(`case ${n} has no task`);
  return { action: actions[0], task, openAlerts: alerts.map(({ kind }) => kind) };
}

/** What of target, action, alerts and task does not agree, in words. */
export function problemsOf(cell: Cell): string[] {
  const { points, struck, effects, undone, action, openAlerts } = cell;
  const problems = points.filter((point) => !struck.includes(point)).map((point) => `nobody was killed at ${point}`);
  if (effects > 1 || effects < 0) problems.push(`the target has taken the effect ${effects} times`);
  if (undone > 1) problems.push(`the effect was taken back ${undone} times`);
  if (action === undefined) return [...problems, 'there is no action'];
  problems.push(...contradictions(cell, action.state));
  const needed = ALERT_OF[action.state];
  if (needed !== undefined && !openAlerts.includes(needed))
    problems.push(`it is ${action.state} (${action.why}), and nobody is told`);
  if (action.undo > 0 && !openAlerts.includes('action rolling back'))
    problems.push('it was undone, and nobody is told');
  if (!statesOf(cell).includes(action.state)) problems.push(`it is ${action.state}: ${action.why}`);
  return problems;
}

const ALERT_OF: Record<string, string | undefined> = {
  unknown: 'action unknown',
  needs_person: 'action needs person',
  aborted: 'action aborted',
};

/** What the action's state says of the target, and of its task, and is not so. */
function contradictions({ kind, mode, effects, undone, isAsBefore, task }: Cell, state: string): string[] {
  const problems: string[] = [];
  const says = (isTrue: boolean, what: string) => {
    if (!isTrue) problems.push(`it is ${state}, and ${what}`);
  };
  if (state === 'committed') says(effects === 1 && undone === 0, `the target has ${effects} effects, ${undone} undone`);
  if (state === 'rolled_back')
    says(isAsBefore && (kind === 'file' || effects === undone), 'the target is not as before');
  if (state === 'aborted') says(effects === 0, 'the target has the effect');
  const isOfPerson = mode !== 'rollback' && (state === 'unknown' || state === 'needs_person');
  if (isOfPerson) says(task.state === 'pending' && task.waitingFor === 'approval', `its task is ${task.state}`);
  else if (mode === 'rollback') says(task.state === 'failed', `its task is ${task.state}`);
  else
    says(
      task.state === 'completed' && task.result === state,
      `its task is ${task.state} with ${JSON.stringify(task.result)}`,
    );
  return problems;
}

/**
 * What a case must come to. Only of a message it may stay unknown: whether a correction was sent, when nobody lives who would know, and a
 * look-up that does not find it proves nothing.
 */
function statesOf({ kind, mode, points }: Cell): string[] {
  if (mode === 'execute') return ['committed'];
  return kind === 'email' && points.includes('action.undo.begin.after@1') ? ['unknown'] : ['rolled_back'];
}

/** A cell in short: the action's state, and effects and undos at the target. */
export function shortly({ action, effects, undone }: Cell): string {
  return `${action?.state ?? 'none'} ${effects}${undone > 0 ? `-${undone}` : ''}`;
}

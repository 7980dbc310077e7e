import type { Client, Pool } from 'pg';
import { type Logger, pino } from 'pino';
import { Agent as HttpAgent } from 'undici';
import { z } from 'zod';
import { type Agent, defineAgent } from '../../src/agent/define-agent.ts';
import type { Task } from '../../src/agent/task.ts';
import { type CallLimits, loadBatch } from '../../src/batch/load-batch.ts';
import { DEFAULT_LIMITS, type JournalEnvironment, type Limits } from '../../src/journal/environment.ts';
import { HoldWatch } from '../../src/journal/hold-watch.ts';
import { JournalWriter } from '../../src/journal/journal-writer.ts';
import type { Lease } from '../../src/journal/lease.ts';
import type { Session } from '../../src/journal/session.ts';
import { HEADER_ONLY, type Tagging } from '../../src/journal/tag.ts';
import { type ClaimedTask, claimTask } from '../../src/lease/claim.ts';
import { thisProcess } from '../../src/lease/process-identity.ts';
import { leaveWorker, registerWorker } from '../../src/lease/worker-row.ts';
import { openClient, openPool } from '../../src/postgres/connect.ts';
import { Pace } from '../../src/provider/pace.ts';
import { readPrices } from '../../src/provider/read-prices.ts';
import { type AttemptResult, runAttempt } from '../../src/worker/run-attempt.ts';
import type { TestDatabase } from './database.ts';

/** What a batch of a test may differ in. */
export interface BatchOptions {
  id?: string;
  version?: string;
  tasks?: number;
  /** What the tasks ask, instead of the numbered questions. */
  inputs?: readonly object[];
  agent?: string;
  agentOptions?: Record<string, string>;
  maxAttempts?: number;
  leaseSeconds?: number;
  doubtPolicy?: 'pay_again' | 'hold';
  budgetUsd?: string;
  limits?: CallLimits;
  fallBack?: { model: string; after: number };
  stopAfterFailures?: number;
}

let batches = 0;

/** Loads a batch of its own, as `madrugada batch load` does; its items are 1, 2, …, their input `{ question: "question 1" }`. */
export async function loadTestBatch(db: TestDatabase, options: BatchOptions = {}): Promise<string> {
  batches += 1;
  const id = options.id ?? `batch-${batches}`;
  const client = await openClient({ url: db.url, as: 'operator', applicationName: 'madrugada test load' });
  try {
    const { batchKey } = await loadBatch(
      client,
      {
        id,
        version: options.version ?? 'v1',
        agent: options.agent ?? 'prompt',
        agentOptions: options.agentOptions ?? {},
        maxAttempts: options.maxAttempts ?? 3,
        leaseSeconds: options.leaseSeconds ?? 600,
        doubtPolicy: options.doubtPolicy ?? 'pay_again',
        budgetUsd: options.budgetUsd,
        limits: options.limits,
        fallBack: options.fallBack,
        stopAfterFailures: options.stopAfterFailures,
      },
      newTasks(options.inputs ?? numberedQuestions(options.tasks ?? 1)),
    );
    return batchKey;
  } finally {
    await client.end();
  }
}

function numberedQuestions(count: number): { question: string }[] {
  return Array.from({ length: count }, (_, index) => ({ question: `question ${index + 1}` }));
}

async function* newTasks(inputs: readonly object[]) {
  for (const [index, input] of inputs.entries())
    yield { position: index + 1, item: String(index + 1), inputJson: JSON.stringify(input) };
}

export type Run = (task: Task) => unknown;

/** An attempt under way. */
export interface RunningAttempt {
  task: ClaimedTask;
  lease: Lease;
  /** The session of its latest run. */
  session(): Session;
  result: Promise<AttemptResult>;
}

/** A registered worker with connections of its own, which runs attempts in this process as a worker process does. */
export class TestWorker {
  readonly id: number;
  readonly slot: string;
  readonly env: JournalEnvironment;
  readonly pool: Pool;
  readonly dispatcher: HttpAgent;
  readonly #baseUrl: string;

  constructor(id: number, env: JournalEnvironment, pool: Pool, dispatcher: HttpAgent, baseUrl: string) {
    this.id = id;
    this.slot = `slot-${id}`;
    this.env = env;
    this.pool = pool;
    this.dispatcher = dispatcher;
    this.#baseUrl = baseUrl;
  }

  /** Claims the batch's next task; throws when there is none. */
  async claim(batchKey: string): Promise<{ task: ClaimedTask; lease: Lease }> {
    const task = await this.tryClaim(batchKey);
    if (task === undefined) throw new Error(`batch ${batchKey} has no task to claim`);
    const { taskId, key, leaseToken: token } = task;
    return { task, lease: { batchKey, taskId, key, slot: this.slot, workerId: this.id, token } };
  }

  tryClaim(batchKey: string): Promise<ClaimedTask | undefined> {
    return claimTask(this.pool, { batchKey, slot: this.slot, workerId: this.id, agentSha256: 'test', after: 0 });
  }

  /** Claims the next task and runs `run` on it to its end. */
  async attempt(batchKey: string, run: Run, check?: Agent['check']): Promise<AttemptResult> {
    return (await this.start(batchKey, run, check)).result;
  }

  /** Claims the next task and begins running `run` on it. */
  async start(batchKey: string, run: Run, check?: Agent['check']): Promise<RunningAttempt> {
    const { task, lease } = await this.claim(batchKey);
    return this.run(task, lease, run, check);
  }

  /** Begins an attempt on a task that was claimed before. */
  run(task: ClaimedTask, lease: Lease, run: Run, check?: Agent['check']): RunningAttempt {
    const agent = defineAgent({
      input: z.unknown(),
      output: z.any(),
      run: async (task) => (await run(task)) ?? null,
      ...(check && { check }),
    });
    return this.runAgent(task, lease, agent);
  }

  /** Begins an attempt by a whole agent on a task that was claimed before. */
  runAgent(task: ClaimedTask, lease: Lease, agent: Agent): RunningAttempt {
    let session: Session | undefined;
    const hooks = {
      onSession(opened: Session) {
        session = opened;
      },
      onActivity: () => undefined,
    };
    const access = { apiKey: 'dummy', baseUrl: this.#baseUrl };
    const result = runAttempt(this.env, { agent, sha256: 'test' }, task, lease, access, hooks);
    return {
      task,
      lease,
      result,
      session() {
        if (session === undefined) throw new Error('the attempt has not read its journal yet');
        return session;
      },
    };
  }

  /** The worker ends and says so: nothing of it is in doubt any more. */
  async leave(): Promise<void> {
    await leaveWorker(this.pool, this.id, 'ended by the test');
  }

  async close(): Promise<void> {
    await this.env.writer.close();
    await this.pool.end();
    await this.dispatcher.destroy();
  }
}

/** What a worker of a test may differ in. */
export interface WorkerSettings {
  limits?: Partial<Limits>;
  tagging?: Tagging;
  alwaysReplay?: boolean;
  log?: Logger;
  /** Path at the provider, with `{tag}`. */
  lookUpPath?: string;
  onHoldWarning?: (message: string) => void;
  /** Opens the journal's connection; for tests that break it. */
  connectJournal?: (connect: () => Promise<Client>) => Promise<Client>;
}

/** Workers of one test file against one provider; `closeAll` ends them. */
export class TestWorkers {
  readonly #db: TestDatabase;
  readonly #baseUrl: string;
  readonly #open: TestWorker[] = [];

  constructor(db: TestDatabase, baseUrl: string) {
    this.#db = db;
    this.#baseUrl = baseUrl;
  }

  /** Registers a worker under this process's identity and opens its connections. */
  async add({
    limits = {},
    tagging = HEADER_ONLY,
    alwaysReplay = false,
    log = pino({ enabled: false }),
    lookUpPath,
    onHoldWarning = () => undefined,
    connectJournal = (connect) => connect(),
  }: WorkerSettings = {}): Promise<TestWorker> {
    const { url } = this.#db;
    const id = await withClient(url, (client) => registerWorker(client, thisProcess()));
    const pool = openPool({ url, as: 'worker', applicationName: `madrugada/w${id}/work`, max: 3 });
    const connect = () => openClient({ url, as: 'worker', applicationName: `madrugada/w${id}/journal` });
    const dispatcher = new HttpAgent({ connect: { timeout: 10_000 } });
    const env: JournalEnvironment = {
      writer: new JournalWriter(() => connectJournal(connect)),
      pool,
      dispatcher,
      prices: await readPrices(pool),
      pace: new Pace(pool),
      holds: new HoldWatch((_, message) => onHoldWarning(message)),
      limits: { ...DEFAULT_LIMITS, ...limits },
      lookUp: lookUpPath === undefined ? undefined : { urlTemplate: this.#baseUrl + lookUpPath, apiKey: 'dummy' },
      tagging,
      log,
      onCharge: () => undefined,
      alwaysReplay,
    };
    const worker = new TestWorker(id, env, pool, dispatcher, this.#baseUrl);
    this.#open.push(worker);
    return worker;
  }

  async closeAll(): Promise<void> {
    await Promise.all(this.#open.splice(0).map((worker) => worker.close()));
  }
}

async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await openClient({ url, as: 'worker', applicationName: 'madrugada test register' });
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** One dispatch of the journal with its outcome; several rows where there are several outcomes. */
export interface DispatchRow {
  seq: number;
  dispatch: number;
  kind: string | null;
  status: number | null;
  answers: boolean | null;
  shown: boolean | null;
  error: string | null;
  attempt: number;
  occurrence: number;
  completedNo: number | null;
}

/** What the journal says about the calls of a batch, in order. */
export async function dispatchesOf(db: TestDatabase, batchKey: string): Promise<DispatchRow[]> {
  const { rows } = await db.pool.query<DispatchRow>(
    `SELECT i.seq, i.dispatch, o.kind, o.status, o.answers, o.shown, o.error, i.attempt, i.occurrence, o.completed_no AS "completedNo"
       FROM madrugada.call_intent i
       LEFT JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch)
      WHERE i.batch_key = $1 ORDER BY i.task_id, i.seq, i.dispatch, o.completed_no`,
    [batchKey],
  );
  return rows;
}

/** The kinds of outcome, dispatch by dispatch, such as `1.1 refused`, `1.2 charged`; `-` where there is none. */
export async function kindsOf(db: TestDatabase, batchKey: string): Promise<string[]> {
  const rows = await dispatchesOf(db, batchKey);
  return rows.map((row) => `${row.seq}.${row.dispatch} ${row.kind ?? '-'}`);
}

export interface TaskRow {
  id: number;
  state: string;
  attempts: number;
  result: unknown;
  failure: { kind: string; message: string } | null;
  waiting_for: string | null;
  not_before: Date | number;
  spent_usd: string;
}

/** The batch's only, or n-th, task. */
export async function taskOf(db: TestDatabase, batchKey: string, position = 1): Promise<TaskRow> {
  const { rows } = await db.pool.query<TaskRow>(
    `SELECT id, state, attempts, result, failure, waiting_for, not_before, spent_usd
       FROM madrugada.task WHERE batch_key = $1 AND position = $2`,
    [batchKey, position],
  );
  const [row] = rows;
  if (row === undefined) throw new Error(`batch ${batchKey} has no task ${position}`);
  return row;
}

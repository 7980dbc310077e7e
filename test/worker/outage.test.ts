import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { openPool } from '../../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { loadTestBatch } from '../support/attempts.ts';
import type { RunningCommand } from '../support/command.ts';
import type { TestDatabase } from '../support/database.ts';
import { turnAway } from '../support/deaf-server.ts';
import { type Exchange, type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { type ProcessSettings, said, WorkerProcesses } from '../support/worker-processes.ts';

const AGENT = fileURLToPath(new URL('../support/agents/three-questions.ts', import.meta.url));
const TASKS = 12;
const CALLS = 3 * TASKS;

/** Slots of a night, each with a call in flight when the worst happens. */
const SLOTS = 6;

let folder: string;
let home: string;
let db: TestDatabase;
let provider: ScriptedProvider;
let processes: WorkerProcesses;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'madrugada-outage-'));
  await chmod(folder, 0o755); // a server that root starts must reach it
  home = join(folder, 'home');
  const { url } = await startEmbedded(home);
  await migrate(url);
  const pool = openPool({ url, applicationName: 'madrugada test', max: 2 });
  db = { url, name: 'postgres', pool, drop: () => pool.end() };
  provider = await startScriptedProvider();
  processes = new WorkerProcesses(db, provider.url);
});
afterEach(async () => {
  await processes.killAll();
  provider.forget();
});
afterAll(async () => {
  await db?.drop();
  await provider?.close();
  await stopEmbedded(home);
  await rm(folder, { recursive: true });
});

const answered = new WeakSet<Exchange>();

/** Answers the first `count` requests, those that are held and those to come. */
function answer(count: number): void {
  provider.script = (exchange) => {
    if (exchange.number > count || answered.has(exchange)) return;
    answered.add(exchange);
    exchange.message();
  };
  for (const exchange of provider.exchanges) void provider.script(exchange);
}

/** Begins a night and lets it come to a moment at which a third of its calls is paid for and every slot has a call in flight. */
async function inTheMiddle(settings: ProcessSettings = {}): Promise<{ batch: string; night: RunningCommand }> {
  const batch = await loadTestBatch(db, { agent: AGENT, tasks: TASKS });
  answer(CALLS / 3);
  const night = processes.night(batch, { workers: 2, concurrency: SLOTS / 2, ...settings });
  await provider.arrival(CALLS / 3 + SLOTS);
  return { batch, night };
}

/** The night has ended well, and every request that reached the provider is one that the journal knows as paid, one for each call. */
async function expectPaidOnce(batch: string, night: RunningCommand): Promise<void> {
  const { code, stdout } = await night.result;
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ completed: TASKS, failed: 0 });
  const { rows } = await db.pool.query<{ tag: string }>(
    `SELECT i.tag FROM madrugada.call_outcome o JOIN madrugada.call_intent i USING (batch_key, task_id, seq, dispatch)
      WHERE o.batch_key = $1 AND o.kind = 'charged' AND o.answers`,
    [batch],
  );
  const requested = provider.exchanges.map(({ headers }) => String(headers['x-madrugada-tag']));
  expect(requested).toHaveLength(CALLS);
  expect(requested.toSorted()).toEqual(rows.map(({ tag }) => tag).toSorted());
}

test('a night survives the crash of its embedded database, which its supervisor starts again', async () => {
  const { batch, night } = await inTheMiddle({ environment: { DATABASE_URL: '', MADRUGADA_HOME: home } });
  await stopEmbedded(home, 'immediate');
  answer(CALLS); // what is in flight is answered while there is no database
  await expectPaidOnce(batch, night);
});

test('a night whose embedded database cannot be started again breaks off and says why; its workers give their work back', async () => {
  const { batch, night } = await inTheMiddle({ environment: { DATABASE_URL: '', MADRUGADA_HOME: home } });
  const ended = once(night.process, 'exit'); // its workers, which wait for the database, keep its output open
  const version = join(home, 'postgres', 'PG_VERSION');
  await writeFile(version, '17\n');
  try {
    await stopEmbedded(home, 'immediate');
    expect(await ended).toEqual([2, null]);
    await said(night, 'belongs to PostgreSQL 17');
  } finally {
    await writeFile(version, '18\n');
    await startEmbedded(home);
  }
  answer(CALLS);
  await night.result; // the workers have ended, too
  await expectPaidOnce(batch, processes.night(batch, { workers: 2 }));
});

test('a night waits for a database of one’s own to be started again after a crash; each worker stays the same process', async () => {
  const { batch, night } = await inTheMiddle();
  await stopEmbedded(home, 'immediate');
  answer(CALLS);
  await turnAway(Number(new URL(db.url).port), 'everybody has tried in vain, and tried again', (names) =>
    [/run$/, /journal$/, /work$/, /slots$/, /heartbeat$/].every(
      (who) => names.filter((name) => who.test(name)).length > 1,
    ),
  );
  await startEmbedded(home);
  await expectPaidOnce(batch, night);
  expect(JSON.parse((await night.result).stdout)).toMatchObject({ restarts: 0 });
});

test('a night survives that every one of its connections is cut, again and again', async () => {
  const { batch, night } = await inTheMiddle();
  for (const paid of [CALLS / 2, (CALLS * 2) / 3, CALLS]) {
    await db.pool.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()');
    answer(paid);
    if (paid < CALLS) await provider.arrival(paid + SLOTS);
  }
  await expectPaidOnce(batch, night);
});

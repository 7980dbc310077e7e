import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Pool } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { decideAction } from '../../src/action/decide-action.ts';
import { openClient, openPool } from '../../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { allowUnrehearsed } from '../support/allow-unrehearsed.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { bankDatabase } from '../support/bank.ts';
import { type RunningCommand, startCommand } from '../support/command.ts';
import type { TestDatabase } from '../support/database.ts';
import { urlOfDatabase } from '../support/database-url.ts';
import { moveClock } from '../support/move-clock.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { testFolder } from '../support/test-folder.ts';
import { until } from '../support/until.ts';

const bank = bankDatabase();

/** The agent's program in one version of it, as its file is deployed. */
function program(version: string): string {
  const at = (...path: string[]) => JSON.stringify(join(packageRoot(), ...path));
  return `// version ${version}
import { z } from ${JSON.stringify(import.meta.resolve('zod'))};
import { defineAction, defineAgent } from ${at('src', 'index.ts')};
import { transferAction } from ${at('test', 'support', 'transfer.ts')};

const transfer = defineAction({
  ...transferAction(),
  name: 'transfer',
  arguments: z.object({ from: z.number(), to: z.number(), amount: z.string() }),
  intent: 'moves money',
  permissions: ['UPDATE on bank.account'],
  blastRadius: 'two accounts',
  approval: 'person',
  expiresIn: 5 * 86_400_000,
});

export default defineAgent({
  input: z.any(),
  output: z.any(),
  actions: [transfer],
  async run(task) {
    const ask = (content) =>
      task.anthropic.messages.create({ model: 'claude-haiku-4-5', max_tokens: 100, messages: [{ role: 'user', content }] });
    await ask('one');
    await ask('two');
    const { state } = await task.action(transfer, { from: 1, to: 2, amount: '300.00' });
    await ask('three');
    return { state, version: ${JSON.stringify(version)} };
  },
});
`;
}

async function actionOf(pool: Pool): Promise<{ id: number; state: string; digest: string } | undefined> {
  const { rows } = await pool.query('SELECT id, state, digest FROM madrugada.action');
  return rows[0];
}

test('three days of waiting for an approval, a crash of the database and of every process and a new version of the program cost nothing', {
  timeout: 180_000,
}, async () => {
  await bank.db.pool.query('INSERT INTO bank.account (id, balance) VALUES (1, 1000), (2, 50)');
  const provider = await startScriptedProvider();
  onTestFinished(() => provider.close());
  const folder = testFolder();
  chmodSync(folder, 0o755); // a server started by root runs as somebody else
  const home = join(folder, 'home');
  const agent = join(folder, 'agent.ts');
  writeFileSync(agent, program('1'));
  onTestFinished(async () => void (await stopEmbedded(home)));

  let db = await openNight(home, 'create');
  const batch = await allowUnrehearsed(db, await loadTestBatch(db, { agent }));
  const worker = (n: number): RunningCommand =>
    startCommand(['worker', '--slot', `host/${n}`, '--batch', batch], {
      environment: { DATABASE_URL: db.url, BANK_URL: bank.db.url, ANTHROPIC_BASE_URL: provider.url },
    });
  const first = worker(1);
  onTestFinished(() => void first.process.kill('SIGKILL'));
  await until('the task waits for its approval', async () => (await taskOf(db, batch)).waiting_for === 'approval');
  expect(provider.requestCount).toBe(2);

  first.process.kill('SIGKILL');
  await first.result;
  await db.pool.end();
  await stopEmbedded(home, 'immediate'); // as if its machine had lost power
  writeFileSync(agent, program('2'));

  db = await openNight(home, 'find');
  await moveClock(db, '3 days');
  const second = worker(2);
  onTestFinished(() => void second.process.kill('SIGKILL'));
  await until('somebody is reminded', async () => {
    const { rows } = await db.pool.query(`SELECT FROM madrugada.alert WHERE kind = 'approval reminder'`);
    return rows.length === 1;
  });
  expect(await taskOf(db, batch)).toMatchObject({ state: 'pending', waiting_for: 'approval', attempts: 0 });
  const action = await actionOf(db.pool);
  if (action === undefined) throw new Error('nothing was proposed');
  const approver = await openClient({ url: db.url, as: 'approver', applicationName: 'madrugada test' });
  const decided = await decideAction(
    approver,
    { id: action.id, digest: action.digest, verdict: 'approve', challenge: undefined, checklist: [] },
    { by: 'ana' },
  );
  await approver.end();
  expect(decided.outcome).toBe('approved');
  await until('the task is done', async () => (await taskOf(db, batch)).state === 'completed');

  expect((await taskOf(db, batch)).result).toEqual({ state: 'committed', version: '2' });
  expect(provider.exchanges.map(({ prompt }) => prompt)).toEqual(['one', 'two', 'three']);
  const { rows: versions } = await db.pool.query(
    'SELECT count(DISTINCT agent_sha256)::int AS agents, max(replayed) AS replayed FROM madrugada.attempt',
  );
  expect(versions).toEqual([{ agents: 2, replayed: 2 }]);
  const { rows: moved } = await bank.db.pool.query('SELECT count(*)::int AS n FROM bank.movement WHERE account = 1');
  expect(moved).toEqual([{ n: 1 }]);
  second.process.kill('SIGTERM');
  await second.result;
  await db.pool.end();
});

/** The night's database on a server of its own, which may be crashed. */
async function openNight(home: string, how: 'create' | 'find'): Promise<TestDatabase> {
  const server = await startEmbedded(home);
  const url = urlOfDatabase(server.url, 'night');
  if (how === 'create') {
    const client = await openClient({ url: server.url, applicationName: 'madrugada test' });
    await client.query('CREATE DATABASE night');
    await client.end();
    await migrate(url);
  }
  const pool = openPool({ url, applicationName: 'madrugada test', max: 3 });
  return { url, name: 'night', pool, drop: () => pool.end() };
}

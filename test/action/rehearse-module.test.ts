import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { rehearseModule } from '../../src/rehearsal/rehearse-module.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { bankDatabase } from '../support/bank.ts';
import { runCommand } from '../support/command.ts';
import { workerBench } from '../support/worker-processes.ts';

const PATIENCE_MS = 300_000;
const bench = workerBench();
const bank = bankDatabase();
const home = mkdtempSync(join(tmpdir(), 'madrugada rehearsal '));
const MOVE = { from: 1, to: 2, amount: '300.00' };

process.env.MADRUGADA_HOME = home;
afterAll(() => {
  delete process.env.MADRUGADA_HOME;
  delete process.env.BANK_URL;
  rmSync(home, { recursive: true });
});
beforeEach(async () => {
  process.env.BANK_URL = bank.db.url;
  await bank.db.pool.query('TRUNCATE bank.account, bank.movement, public.madrugada_action_key');
  await bank.db.pool.query('INSERT INTO bank.account (id, balance) VALUES (1, 1000), (2, 50)');
});

/** A module file of its own, so that its version is known to no other test. */
function moduleOf(name: string, agent: string): string {
  const file = join(home, `${name}.ts`);
  writeFileSync(file, `export { default } from ${JSON.stringify(pathToFileURL(join(packageRoot(), agent)).href)};\n`);
  return file;
}

async function balances(): Promise<string[]> {
  return (await bank.db.pool.query('SELECT balance FROM bank.account ORDER BY id')).rows.map(({ balance }) => balance);
}

async function movements(): Promise<string[]> {
  return (await bank.db.pool.query('SELECT amount FROM bank.movement WHERE account = 2')).rows.map(
    ({ amount }) => amount,
  );
}

function rehearse(module: string, input: unknown = MOVE) {
  return rehearseModule({ module, input, by: 'ana', url: bench.db.url, say: () => undefined });
}

/** A night of a batch of the module that nobody has excused from its rehearsal: the states of its actions, and how its task stands. */
async function nightOf(module: string) {
  const batch = await loadTestBatch(bench.db, { agent: module, inputs: [MOVE], maxAttempts: 1 });
  await bench.processes.night(batch, { environment: { BANK_URL: bank.db.url } }).result;
  const { rows } = await bench.db.pool.query('SELECT state FROM madrugada.action WHERE batch_key = $1', [batch]);
  return { actions: rows.map(({ state }) => state), task: await taskOf(bench.db, batch) };
}

test(
  'a module that survives its crash and takes back what was wrong is fit for production, as long as it is the same file',
  async () => {
    const module = moduleOf('transfer', 'examples/agents/transfer.ts');
    const { verdict, reasons, runs, id } = await rehearse(module);
    expect(reasons).toEqual(['every scenario ended as it must, on strong evidence, in a durable store']);
    expect(verdict).toBe('production');
    expect(runs.crash[0]?.shown.effect).toEqual(runs.clean[0]?.shown.effect);
    expect(runs.clean[0]?.shown.effect).not.toEqual(runs.clean[0]?.shown.before);
    expect(await balances()).toEqual(['1000.00', '50.00']);
    // one effect and one undo of each of the three runs, the crashed one included
    expect(await movements()).toEqual(['300.00', '-300.00', '300.00', '-300.00', '300.00', '-300.00']);
    const { rows } = await bench.db.pool.query('SELECT by_name, verdict FROM madrugada.rehearsal WHERE id = $1', [id]);
    expect(rows).toEqual([{ by_name: 'ana', verdict: 'production' }]);

    expect((await nightOf(module)).actions).toEqual(['proposed']);

    writeFileSync(module, '// changed\n', { flag: 'a' });
    const { actions, task } = await nightOf(module);
    expect(actions).toEqual([]);
    expect(task).toMatchObject({
      state: 'failed',
      failure: { message: expect.stringContaining('run madrugada rehearse module') },
    });
  },
  PATIENCE_MS,
);

test(
  'a module whose rollback restores nothing is for research only, and its actions are refused at night',
  async () => {
    const module = moduleOf('half-undone', 'test/support/agents/half-undone.ts');
    const { verdict, reasons } = await rehearse(module);
    expect(verdict).toBe('research-only');
    expect(reasons).toContainEqual(
      expect.stringMatching(/^verification: transfer was rolled back, and its target is not as it was/),
    );
    const { actions, task } = await nightOf(module);
    expect(actions).toEqual([]);
    expect(task).toMatchObject({
      state: 'failed',
      failure: { message: expect.stringContaining('has no passing rehearsal in this version') },
    });
  },
  PATIENCE_MS,
);

test('without the word that its targets are staging nothing is rehearsed', async () => {
  const { code, stderr } = await runCommand(
    ['rehearse', 'module', 'examples/agents/transfer.ts', '--input', JSON.stringify(MOVE), '--by', 'ana'],
    { folder: packageRoot(), environment: { DATABASE_URL: bench.db.url, BANK_URL: bank.db.url } },
  );
  expect(stderr).toContain('confirm it by --against-staging');
  expect(code).toBe(2);
  expect(await movements()).toEqual([]);
});

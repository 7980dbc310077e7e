import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CommandOptions, type CommandResult, runCommand, startCommand } from '../support/command.ts';
import { completeEvery } from '../support/complete-every.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const LINES = fileURLToPath(new URL('../support/agents/lines.ts', import.meta.url));

let db: TestDatabase;
let environment: Record<string, string>;
const folder = mkdtempSync(join(tmpdir(), 'madrugada-morning-'));

beforeAll(async () => {
  db = await createTestDatabase();
  environment = { DATABASE_URL: db.url, MADRUGADA_HOME: join(folder, 'home'), MADRUGADA_REST_SECONDS: '1' };
});
afterAll(async () => {
  await db.drop();
  rmSync(folder, { recursive: true });
});

const madrugada = (args: string[], options: CommandOptions = {}): Promise<CommandResult> =>
  runCommand(args, { folder, environment, ...options });

/** Loads a list of one task from standard input. */
const load = (id: string, args: string[] = [], options: CommandOptions = {}) =>
  madrugada(['batch', 'load', id, '-', '--version', 'v1', ...args], {
    input: '{"item": "1", "question": "a"}\n',
    ...options,
  });

describe('loading from standard input', () => {
  test('is exit 0, and says so when nothing was changed', async () => {
    expect((await load('input', ['--json'])).stdout).toMatch(/"loaded":true/);
    expect(await load('input', ['--json'])).toMatchObject({ code: 0, stdout: expect.stringMatching(/"loaded":false/) });
  });

  test('refuses another list, and names what differs', async () => {
    await load('other');
    expect(await load('other', [], { input: 'item,question\n1,b\n' })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('changed: item 1'),
    });
  });

  test('refuses what the agent cannot take', async () => {
    const { code, stderr } = await load('schema', ['--agent', LINES], { input: '{"item": "1"}\n' });
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/standard input.*\n.*line 1 \(item 1\): question/),
    });
  });
});

test('an agent and documents given by relative paths serve a night that starts in another folder', async () => {
  const elsewhere = join(folder, 'elsewhere');
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, 'two.txt'), 'um\ndois\n');
  const paths = ['--agent', relative(elsewhere, LINES), '--option', 'documents=two.txt'];
  expect((await load('relative', paths, { folder: elsewhere })).code).toBe(0);
  expect((await madrugada(['run', 'relative', '--simulate', '--workers', '1'])).code).toBe(0);
});

test('a night whose agent is gone says which file it misses', async () => {
  const agent = join(folder, 'agent.ts');
  writeFileSync(agent, `export { default } from '${LINES}';`);
  expect((await load('gone', ['--agent', 'agent.ts'])).code).toBe(0);
  rmSync(agent);
  expect(await madrugada(['run', 'gone', '--simulate'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(agent),
  });
});

test('a task that failed is looked at, sent back, diverges, and is paid again by a person’s order', async () => {
  const document = join(folder, 'document.txt');
  const key = 'failing:1:v1';
  const run = () => madrugada(['run', 'failing', '--simulate', '--workers', '1']);
  const show = async () => (await madrugada(['task', 'show', key])).stdout;

  writeFileSync(document, 'um\n');
  const options = ['--agent', LINES, '--option', `documents=${document}`, '--max-attempts', '2'];
  await load('failing', options);
  expect((await run()).code).toBe(1);
  expect(await madrugada(['audit', 'failing'])).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('1 of 1 tasks failed'),
  });
  expect((await madrugada(['status', 'failing'])).stdout).toContain(`failed: ${key}: the document has no second line`);
  const failed = await show();
  expect(failed).toContain(`next: mend the cause, then madrugada retry ${key}`);
  expect(failed).toMatch(/2 +\S+ +\S+ +failed +1 +0/); // the second attempt replayed one call and sent none

  writeFileSync(document, 'dois\ntres\n');
  expect((await madrugada(['retry', key, '--by', 'ana', '--reason', 'another document'])).code).toBe(0);
  expect((await run()).code).toBe(1);
  const diverged = await show();
  expect(diverged).toContain("restore the agent's earlier code");
  expect(diverged).toContain('--pay-again-from 1');

  const order = ['retry', key, '--by', 'ana', '--reason', 'the new one is right', '--pay-again-from', '1', '--json'];
  expect(JSON.parse((await madrugada(order)).stdout)).toEqual({ task: key, state: 'pending', pay_again_from: 1 });
  expect((await run()).code).toBe(0);
  const shown = JSON.parse((await madrugada(['task', 'show', key, '--bodies', '--json'])).stdout);
  expect(shown).toMatchObject({ state: 'completed', result: 'dois, tres' });
  expect(shown.calls.map(({ request }: { request: string }) => JSON.parse(request).messages[0].content)).toEqual([
    'um',
    'dois',
    'tres',
  ]);
  expect(shown.calls.map(({ set_aside }: { set_aside: boolean }) => set_aside)).toEqual([true, false, false]);
});

test('a batch is listed and closed', async () => {
  await load('closing');
  expect((await madrugada(['batch', 'close', 'closing'])).code).toBe(2);
  await madrugada(['batch', 'stop', 'closing', '--reason', 'not needed']);
  expect((await madrugada(['batch', 'close', 'closing', '--give-up-pending'])).code).toBe(0);
  const list = JSON.parse((await madrugada(['batch', 'list', '--json'])).stdout);
  expect(list).toContainEqual(expect.objectContaining({ batch: 'closing:v1', state: 'closed', tasks: 1, failed: 1 }));
  expect((await madrugada(['status'])).stdout).not.toContain('closing:v1');
});

test('3: a database that cannot be reached', async () => {
  const nowhere = { DATABASE_URL: 'postgres://a:b@127.0.0.1:9/c' };
  const { code, stdout } = await madrugada(['status', '--json'], { environment: nowhere });
  expect(code).toBe(3);
  expect(JSON.parse(stdout)).toMatchObject({ error: { exit_code: 3 } });
});

test('2: a status that is watched is no single JSON document', async () => {
  expect(await madrugada(['status', '--watch', '--json'])).toMatchObject({ code: 2 });
});

test('a reader of answers that has seen enough is no error', async () => {
  await load('much');
  await completeEvery(db, 'much:v1', ['x'.repeat(5_000_000)]); // no pipe holds so much
  const { process: command, result } = startCommand(['answers', 'much'], { folder, environment });
  const ended = Promise.all([once(command, 'exit'), expect(result).rejects.toThrow('Premature close')]);
  command.stdout?.once('data', () => command.stdout?.destroy());
  expect((await ended)[0]).toEqual([0, null]);
});

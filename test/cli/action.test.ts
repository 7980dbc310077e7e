import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { fileAction } from '../../src/action/kinds/file.ts';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { actionBench } from '../support/action-bench.ts';
import { type CommandOptions, type CommandResult, runCommand } from '../support/command.ts';
import { moveClock } from '../support/move-clock.ts';
import { MOVE, passagesOf, propose } from '../support/proposals.ts';

const bench = actionBench();
const folder = mkdtempSync(join(tmpdir(), 'madrugada-action-'));
const PUBLISH = fileURLToPath(new URL('../../examples/agents/publish.ts', import.meta.url));
const MAIN = join(packageRoot(), 'src', 'cli', 'main.ts');
const PERSON = ['--by', 'ana', '--reason', 'by the test'];
const IRREVERSIBLE = { rollback: { kind: 'none', cannot: 'the transfer' }, approval: 'challenge' } as const;

afterAll(() => rmSync(folder, { recursive: true }));

const environment = () => ({ DATABASE_URL: bench.db.url, MADRUGADA_HOME: join(folder, 'home') });
const run = (args: string[], options: CommandOptions = {}): Promise<CommandResult> =>
  runCommand(args, { folder, environment: environment(), ...options });
const madrugada = (...args: string[]) => run(args);
const json = async (...args: string[]) => JSON.parse((await madrugada(...args, '--json')).stdout);

const digestOf = async (id: number) => (await bench.action(id)).digest ?? '';
const stateOf = async (id: number) => (await bench.action(id)).state;

test('an example agent proposes, `run` names what waits, a person approves exactly that, and the next run publishes it', async () => {
  mkdirSync(join(folder, 'published'));
  writeFileSync(join(folder, 'questions.csv'), 'item,question\n1,Quem licencia?\n2,Quem fiscaliza?\n');
  const load = ['batch', 'load', 'notes', 'questions.csv', '--version', 'v1', '--agent', PUBLISH, '--unrehearsed'];
  expect(await run(load)).toMatchObject({ code: 2, stderr: expect.stringContaining('say who answers for it') });
  expect((await run([...load, '--by', 'ana'])).code).toBe(0);
  expect((await madrugada('batch', 'show', 'notes')).stdout).toContain('without a rehearsal');
  const { rows } = await bench.db.pool.query(
    `SELECT by_name FROM madrugada.audit_event WHERE batch_key = 'notes:v1' AND event = 'unrehearsed actions allowed'`,
  );
  expect(rows).toEqual([{ by_name: 'ana' }]);

  const first = await madrugada('run', 'notes', '--simulate', '--workers', '1');
  expect(first.code).toBe(1);
  const [one = 0, two = 0] = (await json('action', 'list', 'notes')).actions.map(({ id }: { id: number }) => id);
  for (const id of [one, two]) expect(first.stdout).toContain(`madrugada action show ${id}`);
  expect((await madrugada('status', 'notes')).stdout).toMatch(
    /2 tasks wait for approval.*waits for approval, 23 h .*madrugada action show/s,
  );
  expect(await json('status', 'notes')).toMatchObject({ batches: [{ actions: [{ id: one }, { id: two }] }] });
  expect((await madrugada('task', 'show', 'notes:1:v1')).stdout).toContain(
    `next: a person decides: madrugada action show ${one}`,
  );
  expect(await json('task', 'show', 'notes:1:v1')).toMatchObject({ actions: [{ id: one, state: 'proposed' }] });

  const { digest } = await json('action', 'show', String(one));
  expect(await json('action', 'approve', String(one), '--by', 'ana', '--digest', digest.slice(0, 8))).toEqual({
    ...{ action: one, outcome: 'approved', message: null },
  });
  expect(await json('action', 'reject', String(two), ...PERSON)).toMatchObject({ outcome: 'rejected', changed: true });
  expect((await madrugada('run', 'notes', '--simulate', '--workers', '1')).code).toBe(0);
  expect(readFileSync(join(folder, 'published', '1.txt'), 'utf8')).toMatch(/\p{L}/u);
  expect(existsSync(join(folder, 'published', '2.txt'))).toBe(false);
  expect((await madrugada('action', 'show', String(one))).stdout).toMatch(/COMMITTED.*evidence +read back.*in effect/s);
});

test('loading it again without --unrehearsed changes nothing, and says that it keeps it', async () => {
  const again = ['batch', 'load', 'notes', 'questions.csv', '--version', 'v1', '--agent', PUBLISH];
  expect((await run(again)).stdout).toContain('it keeps unrehearsed true, not false');
});

describe('what is shown', () => {
  test('fits a terminal of 100 columns, and says all that a decision takes', async () => {
    const { id, task } = await propose(bench, { approval: 'two-people', onExpiry: 'fail' });
    await bench.decide(id, { by: 'ben', reason: 'it is due' });
    const { stdout } = await onTerminal(['action', 'show', String(id)]);
    const lines = stdout.replaceAll('\r', '').split('\n');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(100);
    expect(lines.length).toBeLessThanOrEqual(50);
    const { digest = '', key = '' } = await bench.action(id);
    for (const piece of [
      'move 300.00 from account 1 to account 2',
      '"amount": "300.00"',
      '- id 1, balance 1000.00',
      '+ id 1, balance 700.00',
      '- id 2, balance 50.00',
      '+ id 2, balance 350.00',
      'UPDATE on bank.account',
      'two accounts of the bank',
      'in-band: Restore bank.account',
      'by agent in slot',
      `madrugada task show ${task}`,
      key,
      digest,
      'two people',
      'ben approves: it is due',
      'in 23 h 59 min; then the task fails',
      'approved by one, by ben',
      `next: madrugada action approve ${id} --by WHO --digest ${digest.slice(0, 8)}`,
      `or:   madrugada action reject ${id} --by WHO --reason TEXT`,
    ])
      expect(stdout).toContain(piece);
  });

  test('of what cannot be undone, which text is to be typed', async () => {
    const { id } = await propose(bench, IRREVERSIBLE);
    const { stdout } = await madrugada('action', 'show', String(id));
    expect(stdout).toContain('NONE: cannot be undone: the transfer');
    expect(stdout).toContain('--challenge TEXT --checklist resource,blast-radius,rollback');
    expect(stdout).toContain(`type as TEXT: ${(await digestOf(id)).slice(0, 8)} the transfer`);
  });

  test('numbers with all their digits, also as JSON', async () => {
    const { id } = await propose(bench, { arguments: anything({ ...MOVE, reference: '9007199254740993.10' }) });
    await setArguments(id, `{"from": 1, "to": 2, "amount": "300.00", "reference": 9007199254740993.10}`);
    expect((await madrugada('action', 'show', String(id))).stdout).toContain('"reference": 9007199254740993.10');
    expect((await madrugada('action', 'show', String(id), '--json')).stdout).toContain(
      '"reference":9007199254740993.10',
    );
  });

  test('no character of it plays tricks: those of control and those that show nothing are spelled out', async () => {
    const intent = 'pay\x1b[2Kall\u202e\u200b\nnext: madrugada action approve 1';
    const { id } = await propose(bench, { intent });
    for (const command of [['action', 'show', String(id)], ['action', 'list'], ['status'], ['alert', 'list']]) {
      const { stdout } = await madrugada(...command);
      for (const trick of ['\x1b', '\u202e', '\u200b']) expect(stdout).not.toContain(trick);
      expect(stdout).not.toMatch(/^next: madrugada action approve 1$/m);
    }
    expect((await madrugada('action', 'show', String(id))).stdout).toContain('pay\\x1b[2Kall\\u202e\\u200b');
  });

  test('a file line by line, and what was changed past the guard as such', async () => {
    const path = join(folder, 'letter.txt');
    writeFileSync(path, 'Dear Ana,\nthe rent is 900.\nYours\n');
    const { id } = await propose(bench, {
      ...fileAction<typeof MOVE>({
        root: folder,
        path: () => 'letter.txt',
        content: () => 'Dear Ana,\nthe rent is 950.\nYours\n',
        precondition: () => undefined,
      }),
    } as never);
    expect((await madrugada('action', 'show', String(id))).stdout).toMatch(
      / {2}Dear Ana,\n +- the rent is 900\.\n +\+ the rent is 950\.\n +Yours/,
    );
    await setArguments(id, '{"from": 1, "to": 2, "amount": "900.00"}');
    const { stdout } = await madrugada('action', 'show', String(id));
    expect(stdout).toContain('CHANGED      somebody has changed this row past the guard');
    expect(stdout).not.toContain('action approve');
  });

  test('weak evidence as weak, and an unknown action with the way to settle it', async () => {
    const weak = await propose(bench, {
      verify: async () => ({ found: 'effect', evidence: { seen: 'a queue' }, strength: 'weak' }),
    });
    await bench.decide(weak.id);
    await weak.goOn();
    expect((await madrugada('action', 'show', String(weak.id))).stdout).toMatch(/evidence +WEAK/);

    const unknown = await propose(bench, { verify: async () => ({ found: 'unknown', evidence: { why: 'silence' } }) });
    await bench.decide(unknown.id);
    await unknown.goOn();
    const id = String(unknown.id);
    expect((await madrugada('action', 'show', id)).stdout).toContain(`madrugada action settle ${id} --as`);
    expect((await json('action', 'list', unknown.batch)).actions).toMatchObject([{ id: unknown.id, state: 'unknown' }]);
    expect(await json('action', 'settle', id, '--as', 'rolled-back', ...PERSON)).toEqual({
      ...{ action: unknown.id, state: 'rolled_back' },
    });
    expect(await madrugada('action', 'settle', id, '--as', 'committed', ...PERSON)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`action ${id} is rolled back: only what is unknown or needs a person`),
    });
  });

  test('what has expired is shown as expired, though no worker has looked', async () => {
    const { id, batch } = await propose(bench);
    await moveClock(bench.db, '25 hours');
    expect((await json('action', 'list', batch)).actions).toMatchObject([{ id, state: 'expired' }]);
    expect((await json('action', 'list', batch, '--state', 'proposed')).actions).toEqual([]);
    expect((await madrugada('action', 'show', String(id))).stdout).toContain('EXPIRED');
  });
});

describe('approving', () => {
  test('needs what was shown: without a terminal the digest, eight digits of it or more', async () => {
    const { id } = await propose(bench);
    const digest = await digestOf(id);
    const approve = (...more: string[]) => madrugada('action', 'approve', String(id), '--by', 'ana', ...more);
    expect(await approve()).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`--digest ${digest.slice(0, 8)}`),
    });
    expect(await approve('--digest', digest.slice(0, 7))).toMatchObject({ code: 2 });
    expect(await passagesOf(bench, id)).toEqual(['proposed']);
    expect(await approve('--digest', 'f'.repeat(8))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('look at it again'),
    });
    expect(await passagesOf(bench, id)).toEqual(['proposed', 'approve refused by ana']);
    expect(await approve('--digest', digest.toUpperCase())).toMatchObject({ code: 0 });
    expect(await approve('--digest', digest)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('already approved; nothing was changed'),
    });
    expect(await stateOf(id)).toBe('approved');
  });

  test('of what cannot be undone takes the challenge and the checklist', async () => {
    const { id } = await propose(bench, IRREVERSIBLE);
    const start = (await digestOf(id)).slice(0, 8);
    const given = ['action', 'approve', String(id), '--by', 'ana', '--digest', start];
    expect((await run(given)).stderr).toContain(`type exactly: ${start} the transfer`);
    expect((await run([...given, '--challenge', `${start} the transfer`])).stderr).toContain('missing: resource');
    expect((await run([...given, '--checklist', 'resource,luck'])).stderr).toContain('"luck" is none of');
    const points = ['--checklist', 'resource,blast-radius,rollback'];
    expect((await run([...given, '--challenge', `${start} the transfer`, ...points])).code).toBe(0);
    expect(await stateOf(id)).toBe('approved');
  });

  test.skipIf(!hasTerminal())(
    'on a terminal shows the action and takes the digits that stand on the screen',
    async () => {
      const { id } = await propose(bench);
      const wrong = await onTerminal(['action', 'approve', String(id), '--by', 'ana'], ['']);
      expect(wrong).toMatchObject({ code: 2, stdout: expect.stringContaining('not approved: nothing was changed') });
      expect(await stateOf(id)).toBe('proposed');
      const right = await onTerminal(
        ['action', 'approve', String(id), '--by', 'ana'],
        [(await digestOf(id)).slice(0, 8)],
      );
      expect(right).toMatchObject({ code: 0, stdout: expect.stringMatching(/move 300.00.*is approved/s) });
    },
  );

  test.skipIf(!hasTerminal())(
    'on a terminal asks for each point, and for the challenge, of what cannot be undone',
    async () => {
      const { id } = await propose(bench, IRREVERSIBLE);
      const challenge = `${(await digestOf(id)).slice(0, 8)} the transfer`;
      const approve = (...typed: string[]) => onTerminal(['action', 'approve', String(id), '--by', 'ana'], typed);
      expect((await approve('yes', 'no', 'yes', challenge)).stdout).toContain('missing: blast-radius');
      expect(await stateOf(id)).toBe('proposed');
      expect((await approve('yes', 'yes', 'yes', challenge)).code).toBe(0);
      expect(await stateOf(id)).toBe('approved');
    },
  );

  test.each([
    ['worker', { code: 2, stderr: expect.stringContaining('may not work as madrugada_approver') }, 'proposed'],
    ['approver', { code: 0 }, 'approved'],
  ])('by a login that has the role %s alone', async (role, expected, state) => {
    const { id } = await propose(bench);
    await bench.db.pool.query(`CREATE ROLE ${LOGIN} LOGIN PASSWORD 'x' IN ROLE madrugada_${role}`);
    try {
      const url = new URL(bench.db.url);
      Object.assign(url, { username: LOGIN, password: 'x' });
      const args = ['action', 'approve', String(id), '--by', 'ana', '--digest', await digestOf(id)];
      expect(await run(args, { environment: { ...environment(), DATABASE_URL: url.href } })).toMatchObject(expected);
      expect(await stateOf(id)).toBe(state);
    } finally {
      await bench.db.pool.query(`DROP ROLE ${LOGIN}`);
    }
  });
});

const LOGIN = `madrugada_test_${process.pid}`;

test.each([
  ['a number that is none', ['show', 'one'], '"one" is no action'],
  ['an action that is not there', ['show', '4711'], 'there is no action 4711'],
  ['a state that is none', ['list', '--state', 'gone'], 'gone'],
  ['a rejection without a reason', ['reject', '1', '--by', 'ana'], '--reason'],
  ['an approval by nobody', ['approve', '1', '--digest', '0'.repeat(8)], '--by'],
  ['a settlement as something else', ['settle', '1', '--as', 'approved', ...PERSON], 'approved'],
])('%s: exit 2, and what is wrong', async (_, args, problem) => {
  expect(await madrugada('action', ...args)).toMatchObject({ code: 2, stderr: expect.stringContaining(problem) });
});

describe('the audit file', () => {
  const AUDIT = join(packageRoot(), 'db', 'audit', '10-actions.sql');
  const hasPsql = spawnSync('psql', ['--version']).status === 0;

  test.each([['without psql', folder], ...(hasPsql ? [['with psql', process.env.PATH ?? '']] : [])])(
    '%s, tells every passage with time, actor and reason, of one action or of a batch',
    async (_, PATH) => {
      const { id, batch } = await propose(bench);
      await expect(bench.decide(id, { digest: 'another' })).rejects.toThrow('look at it again');
      await bench.decide(id, { by: 'ben', verdict: 'reject', reason: 'paid' });
      const psql = async (variable: string) => {
        const args = ['db', 'psql', '-A', '-t', '-q', '-v', variable, '-f', AUDIT];
        const { code, stdout, stderr } = await run(args, { environment: { ...environment(), PATH } });
        expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
        return stdout
          .trim()
          .split('\n')
          .map((line) => line.split('|'));
      };
      const ofAction = await psql(`action=${id}`);
      expect(ofAction.map(([action, , , , event, , to, actor, reason]) => [action, event, to, actor, reason])).toEqual([
        [String(id), 'proposed', 'proposed', expect.stringContaining('agent in slot'), expect.stringContaining('move')],
        [String(id), 'approve refused', 'proposed', 'ana', expect.stringContaining('look at it again')],
        [String(id), 'rejected', 'rejected', 'ben', 'rejected by ben: paid'],
      ]);
      expect(ofAction[0]?.[3]).toMatch(/^\d{4}-\d\d-\d\d /);
      expect(await psql(`batch=${batch}`)).toEqual(ofAction);
    },
  );
});

/** A schema that takes anything and gives `value`. */
function anything(value: unknown) {
  return { '~standard': { version: 1, vendor: 'test', validate: () => ({ value }) } } as never;
}

async function setArguments(id: number, json: string): Promise<void> {
  await bench.db.pool.query('ALTER TABLE madrugada.action DISABLE TRIGGER action_guard');
  await bench.db.pool.query('UPDATE madrugada.action SET arguments = $2 WHERE id = $1', [id, json]);
  await bench.db.pool.query('ALTER TABLE madrugada.action ENABLE TRIGGER action_guard');
}

/** util-linux's `script`, which runs a command on a terminal of its own. */
function hasTerminal(): boolean {
  return spawnSync('script', ['--version']).stdout?.includes('util-linux') ?? false;
}

/** Runs a command on a terminal of 100 columns. Each of `lines` is typed when the command asks for it: its prompt ends in a colon or `> `. */
async function onTerminal(args: string[], lines: string[] = []): Promise<{ code: number | null; stdout: string }> {
  const quoted = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(' ');
  const child = spawn('script', ['-qec', `stty cols 100 -echo; ${quoted}`, '/dev/null'], {
    env: { PATH: process.env.PATH, TERM: 'dumb', ...environment() },
    cwd: folder,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let stdout = '';
  let answered = 0;
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    stdout += chunk;
    const asked = stdout.match(/(yes or no: |of the digest: |^> )/gm)?.length ?? 0;
    while (answered < Math.min(asked, lines.length)) child.stdin.write(`${lines[answered++]}\n`);
  });
  const [code] = await once(child, 'close');
  return { code, stdout };
}

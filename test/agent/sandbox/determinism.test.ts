import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { TurnReport } from '../../../src/agent/sandbox/protocol.ts';
import { SandboxPool } from '../../../src/agent/sandbox/sandbox-pool.ts';
import { runCommand } from '../../support/command.ts';
import { openSandbox, outputsOf, runTurns, SETTINGS } from './sandboxes.ts';
import { DATES } from './show-dates.ts';

const first = new SandboxPool({ threads: 1, hardLimitMs: 30_000 });
const second = new SandboxPool({ threads: 1, hardLimitMs: 30_000 });
afterAll(() => Promise.all([first.close(), second.close()]));

/** The reports of the same turns in two sandboxes of different pools; in the second, a neighbour has run on the thread before and between. */
async function twice(turns: readonly (string | string[])[]): Promise<[TurnReport[], TurnReport[]]> {
  const alone = openSandbox(first);
  const neighbour = openSandbox(second);
  const beside = openSandbox(second);
  const reports = await runTurns(alone, turns);
  const others: TurnReport[] = [];
  for (const [index, code] of turns.entries()) {
    await neighbour.run(index + 1, ['var n = (globalThis.n ?? 0) + Math.random(); new Array(50_000).fill(n).length']);
    others.push(await beside.run(index + 1, typeof code === 'string' ? [code] : code));
  }
  for (const sandbox of [alone, neighbour, beside]) sandbox.close();
  return [reports, others];
}

describe('The same turns give the same reports', () => {
  const PROGRAMS = {
    'of values, time and randomness': [
      'const list = [1, 2, 3].map((n) => n * Math.random()); list',
      'class A { x = Date.now() } const a = new A(); print(a.x, new Date().toString()); var f = () => a',
      "print(list[1]); throw new Error('no: ' + list[2])",
    ],
    'of searches and chunks': ["const hits = search('river north'); hits", 'chunk(context[0].text, 20)'],
    'of sub-calls': ["const a = await llmBatch(['a', 'b', 'c']); a", "llm('unawaited'); 1"],
    'of several blocks': [['var x = 1; print(x)', 'x + 1', 'nonsense(', 'print("never")'], 'x'],
    'of code that is stopped': ['var n = 0; for (;;) n++', 'n'],
    'of jobs that are stopped': ['var n = 0; for (;;) { await null; n++ }', 'n'],
    'of jobs that outlive their turn': ['var n = 0; (async () => { for (;;) { await null; n++ } })(); 1', 'n', 'n'],
    'of code without end in depth': ['var n = 0; function f() { n++; f() } f()', 'n'],
    'of code without end in memory': ['var a = []; for (;;) a.push(new Array(1000).fill(0))', 'a.length'],
    'of text without end in memory': ["var a = []; for (;;) a.push('x'.repeat(1e5) + a.length)", 'a.length'],
  };

  test.each(Object.entries(PROGRAMS))('%s', async (_what, turns) => {
    const [reports, others] = await twice(turns);

    expect(others).toEqual(reports);
    expect(reports.at(-1)?.output).not.toBe('');
  });
});

test('a sandbox that takes over the instance of another finds nothing of it, and runs as in a new one', async () => {
  const pool = new SandboxPool({ threads: 1, hardLimitMs: 30_000 });
  const spoiling = openSandbox(pool);
  await runTurns(spoiling, [
    "var secret = 'left behind'; Array.prototype.left = secret; Object.prototype.toString = () => secret; Math.max = () => 7; 1",
    "globalThis.kept = new Map([[1, secret.repeat(1000)]]); Promise.resolve().then(() => { globalThis.late = 1 }); llm('x')",
    '(function f() { return f() + 1 })()',
    'for (let i = 0; i < 10_000; i++) kept.set(i, [secret])', // an instance of which much was used would not be kept
  ]);
  spoiling.close();
  const turns = [
    'print(typeof secret, typeof kept, typeof late, [].left, String({}), Math.max(1, 2)); print(Object.keys(globalThis).join())',
    'var n = 0; for (;;) n++',
    'n',
    'print(Math.random()); new Array(1e5).fill(n).length',
  ];
  const taken = await runTurns(openSandbox(pool), turns);
  await pool.close();

  expect(taken[0]?.output).toBe('undefined undefined undefined undefined [object Object] 2\n\n');
  const fresh = new SandboxPool({ threads: 1, hardLimitMs: 30_000 });
  expect(taken).toEqual(await runTurns(openSandbox(fresh), turns));
  await fresh.close();
});

describe('Answers', () => {
  const COLLECT = `const come = [];
    await Promise.all(['a', 'b', 'c'].map(async (prompt) => { come.push(await llm(prompt)); come.push(Math.random()); }));
    come`;

  /** The report of a turn whose three calls are answered in this order; `pause` is waited for before each answer. */
  async function answered(pool: SandboxPool, order: number[], pause: () => Promise<unknown>): Promise<TurnReport> {
    const waiting: (() => void)[] = [];
    const sandbox = openSandbox(pool, {
      onCall: async (_kind, prompt) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        if (waiting.push(resolve) === 3) void answerAll();
        await promise;
        return prompt.toUpperCase();
      },
    });
    const answerAll = async () => {
      for (const index of order) {
        await pause();
        waiting[index]?.();
      }
    };
    const report = await sandbox.run(1, [COLLECT]);
    sandbox.close();
    return report;
  }

  test('in one order give the same report, whether they come together or far apart', async () => {
    const other = openSandbox(second);
    let turn = 0;
    const together = await answered(first, [2, 0, 1], async () => undefined);
    const apart = await answered(second, [2, 0, 1], async () => {
      turn += 1;
      await other.run(turn, ['1']); // the thread has seen all that was posted before
    });

    expect(apart).toEqual(together);
    expect(apart.output).toMatch(/^=> \["C", 0\.\d+, "A", 0\.\d+, "B"/);
  });

  test('in another order give another report', async () => {
    const one = await answered(first, [0, 1, 2], async () => undefined);
    const other = await answered(first, [1, 0, 2], async () => undefined);

    expect(other.state).not.toBe(one.state);
    expect(other.output).not.toBe(one.output);
  });

  test('that are errors count among the others', async () => {
    const onCall = async (_kind: string, prompt: string) => {
      if (prompt === 'b') throw new Error('refused');
      return prompt;
    };
    const turns = ["await llmBatch(['a', 'b', 'c'])", "await llm('b')"];
    const reports = await Promise.all(
      [first, second].map(async (pool) => runTurns(openSandbox(pool, { onCall }), turns)),
    );

    expect(reports[0]).toEqual(reports[1]);
    expect(reports[0]?.[0]?.output).toBe('[sub-call 2: refused]\n=> ["a", null, "c"]\n');
    expect(reports[0]?.[1]?.failure).toContain('Error: refused');
  });
});

describe('The digest of the state', () => {
  /** The digest after the turns, the last of which prints nothing. */
  async function stateAfter(...turns: string[]): Promise<string> {
    const sandbox = openSandbox(first);
    const reports = await runTurns(sandbox, turns);
    sandbox.close();
    return reports.at(-1)?.state ?? '';
  }

  const DIFFERENT: [what: string, one: string, other: string][] = [
    ['texts', "var v = 'a'", "var v = 'b'"],
    ['texts after the character NUL', "var v = 'a\\0b'", "var v = 'a\\0c'"],
    ['the ends of long texts', "var v = 'x'.repeat(3e6) + 'a'", "var v = 'x'.repeat(3e6) + 'b'"],
    ['what follows after long texts', "var v = 'x'.repeat(3e6), w = 1", "var v = 'x'.repeat(3e6), w = 2"],
    ['numbers', 'var v = 1', 'var v = 2'],
    ['a number and its text', 'var v = 1', "var v = '1'"],
    ['the two zeros', 'var v = 0', 'var v = -0'],
    ['big integers and numbers', 'var v = 1', 'var v = 1n'],
    ['null and undefined', 'var v = null', 'var v = undefined'],
    ['names', 'var v = 1', 'var w = 1'],
    ['values deep inside', 'var v = { a: [{ b: 1 }] }', 'var v = { a: [{ b: 2 }] }'],
    ['keys', 'var v = { a: 1 }', 'var v = { b: 1 }'],
    ['a hole and undefined', 'var v = [, 1]', 'var v = [undefined, 1]'],
    ['lists and objects', "var v = ['a']", "var v = { 0: 'a' }"],
    ['values of maps', "var v = new Map([['a', 1]])", "var v = new Map([['a', 2]])"],
    ['keys of maps', 'var v = new Map([[{ a: 1 }, 1]])', 'var v = new Map([[{ a: 2 }, 1]])'],
    ['the order of maps', 'var v = new Map([[1, 1], [2, 1]])', 'var v = new Map([[2, 1], [1, 1]])'],
    ['members of sets', 'var v = new Set([1])', 'var v = new Set([2])'],
    ['dates', 'var v = new Date(1)', 'var v = new Date(2)'],
    ['regular expressions', 'var v = /a/', 'var v = /a/i'],
    ['where a regular expression stands', "var v = /a/g; v.exec('aa')", "var v = /a/g; v.exec('aa'); v.exec('aa')"],
    ['sources of functions', 'var v = () => 1', 'var v = () => 2'],
    ['properties of functions', 'function v() {} v.seen = 1', 'function v() {} v.seen = 2'],
    ['static properties of classes', 'class V { static n = 1 }', 'class V { static n = 1 } V.n = 2'],
    ['classes of objects', 'class A {} class B {} var v = new A()', 'class A {} class B {} var v = new B()'],
    ['a cycle and a copy', 'var v = {}; v.v = v', 'var v = {}; v.v = {}'],
    ['one object twice and two', 'var o = {}, v = [o, o]', 'var o = {}, v = [o, {}]'],
    ['an accessor and a value', 'var v = { get a() { return 1 } }', 'var v = { a: 1 }'],
    ['messages of errors', "var v = new Error('a')", "var v = new Error('b')"],
    ['typed arrays', 'var v = new Uint8Array([1])', 'var v = new Uint8Array([2])'],
    [
      'values behind a proxy that cannot be read',
      'var p = new Proxy(new Map(), {}), v = 1',
      'var p = new Proxy(new Map(), {}), v = 2',
    ],
    ['built-ins replaced', 'escape = 1', 'escape = 2'],
    [
      'values after methods of arrays are gone',
      'Array.prototype.filter = null; var v = 1',
      'Array.prototype.filter = null; var v = 2',
    ],
    [
      'values after the global object is gone',
      'var v = 1; delete globalThis.globalThis',
      'var v = 2; delete globalThis.globalThis',
    ],
    ['outputs', 'print(1)', 'print(2)'],
    ['failures', 'throw 1', 'throw 2'],
    ['answers', "answer({ text: 'a', citations: [] })", "answer({ text: 'b', citations: [] })"],
  ];

  test.each(DIFFERENT)('tells apart %s', async (_what, one, other) => {
    const end = (code: string) => `${code}\n;undefined`;

    expect(await stateAfter(end(other))).not.toBe(await stateAfter(end(one)));
    expect(await stateAfter(end(one))).toBe(await stateAfter(end(one)));
  });

  test('stays when values are merely read', async () => {
    const made = "var v = { a: [1, 'b', new Map([[1, 2]])], get c() { return 3 } }; undefined";
    const read = "void [JSON.stringify(v), v.c, context[0].text, search('douro'), [...v.a[2]], chunk(v.a[1])]";

    expect(await stateAfter(made, read)).toBe(await stateAfter(made));
  });

  test('runs no accessor of the guest’s', async () => {
    const trap =
      "var seen = 0; var v = { get a() { seen++; return 1 } }; Object.defineProperty(globalThis, 'w', { get() { seen++ } }); 1";

    expect(await outputsOf(first, [trap, 'seen', 'seen'])).toEqual(['=> 1', '=> 0', '=> 0']);
  });

  test('lets a proxy’s trap neither print nor answer nor call', async () => {
    const calls: string[] = [];
    const sandbox = openSandbox(first, { onCall: async (_kind, prompt) => String(calls.push(prompt)) });
    const [report] = await runTurns(sandbox, [
      "var p = new Proxy({}, { ownKeys() { print('trap'); answer({ text: 't', citations: [] }); llm('t'); return [] } }); 1",
    ]);
    const next = await sandbox.run(2, ['2']);
    sandbox.close();

    expect(report).toMatchObject({ output: '=> 1\n', answer: undefined, failure: undefined });
    expect(next).toMatchObject({ output: '=> 2\n', answer: undefined, failure: undefined });
    expect(calls).toEqual([]);
  });
});

describe('Time and chance', () => {
  test('The clock stands still at the moment given, for every way to ask for it', async () => {
    const ways = [
      'Date.now()',
      'new Date().getTime()',
      'new (new Date().constructor)().getTime()',
      'Reflect.construct(Date, []).getTime()',
      'new (class extends Date {})().getTime()',
      'Date.parse(Date()) - Date.parse(Date()) + Date.now()',
    ];
    const outputs = await outputsOf(first, [...ways, 'for (let i = 0; i < 1e6; i++); Date.now()']);

    expect(new Set(outputs)).toEqual(new Set([`=> ${SETTINGS.nowMs}`]));
  });

  test('Two sandboxes on one thread have each their own time', async () => {
    const early = openSandbox(first, { settings: { nowMs: 1000 } });
    const late = openSandbox(first, { settings: { nowMs: 2000 } });
    const shown = async (turn: number) =>
      (await Promise.all([early.run(turn, ['Date.now()']), late.run(turn, ["await llm('x'); Date.now()"])])).map(
        ({ output }) => output,
      );

    expect([await shown(1), await shown(2)]).toEqual([
      ['=> 1000\n', '=> 2000\n'],
      ['=> 1000\n', '=> 2000\n'],
    ]);
  });

  test('The host’s time zone does not show', async () => {
    const child = await runCommand([], {
      script: join(import.meta.dirname, 'show-dates.ts'),
      environment: { TZ: 'America/Sao_Paulo' },
    });
    expect(child.stderr).toBe('');
    const { offset, dates } = JSON.parse(child.stdout);

    expect(offset).toBe(180);
    expect(dates).toEqual(await outputsOf(first, [DATES]));
    expect(dates[0]).toContain('02:30:00 GMT+0000');
  });

  test('The same seed gives the same numbers, another seed others', async () => {
    const numbers = async (pool: SandboxPool, seed: string) => {
      const sandbox = openSandbox(pool, { settings: { seed } });
      const [report] = await runTurns(sandbox, ['[Math.random(), Math.random(), Math.random()]']);
      sandbox.close();
      return report?.output;
    };
    const seed = 'ab'.repeat(32);

    expect(await numbers(second, seed)).toBe(await numbers(first, seed));
    expect(await numbers(first, 'ac'.repeat(32))).not.toBe(await numbers(first, seed));
  });

  test('The numbers lie between 0 and 1 and do not repeat', async () => {
    const code = `const all = Array.from({ length: 10_000 }, Math.random);
      [all.every((n) => n >= 0 && n < 1), new Set(all).size > 9_990, all.filter((n) => n < 0.5).length]`;
    const [output = ''] = await outputsOf(first, [code]);

    const [inside, different, low] = JSON.parse(output.slice(3));
    expect([inside, different]).toEqual([true, true]);
    expect(Math.abs(low - 5000)).toBeLessThan(300);
  });

  test('Math.random can neither be replaced nor deleted', async () => {
    const turns = [
      'Math.random = () => 7; 1',
      "try { Object.defineProperty(Math, 'random', { value: () => 7 }) } catch (error) { print(error.message) }",
      'delete Math.random',
      'Math.random() < 1',
    ];

    expect(await outputsOf(first, turns)).toEqual(['=> 1', 'property is not configurable', '=> false', '=> true']);
  });

  test('What tells when memory is collected does not exist', async () => {
    const [output] = await outputsOf(first, [
      '[typeof WeakRef, typeof FinalizationRegistry, typeof SharedArrayBuffer, typeof Atomics, typeof performance, typeof gc]',
    ]);

    expect(output).toBe(`=> [${Array(6).fill('"undefined"').join(', ')}]`);
  });
});

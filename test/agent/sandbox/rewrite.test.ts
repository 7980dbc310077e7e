import { afterAll, describe, expect, test } from 'vitest';
import { CodeError, rewriteBlock, TOO_DEEP } from '../../../src/agent/sandbox/rewrite.ts';
import { SandboxPool } from '../../../src/agent/sandbox/sandbox-pool.ts';
import { outputsOf } from './sandboxes.ts';

const pool = new SandboxPool({ threads: 1, hardLimitMs: 30_000 });
afterAll(() => pool.close());

/** Code in lines without semicolons, the value of its last expression, and that of an expression in the next turn. */
type Case = [what: string, code: string, value: string, next?: [code: string, value: string]];

const CASES: Case[] = [
  // statements that end without a semicolon
  ['a declaration before a list', 'let a = 1\nlet b = a\n;[b]', '[1]'],
  ['a declaration before a pattern', 'let a = [5]\nlet [b] = a\nb', '5', ['[a, b]', '[[5], 5]']],
  ['a declaration before an object’s pattern', 'const o = { x: 1 }\nconst { x } = o\nx', '1', ['x', '1']],
  ['a declaration before a parenthesis that calls it', 'const f = (n) => n + 1\nconst a = f\n(1)\na', '2'],
  ['a call before a class', 'fold("A")\nclass B {}\ntypeof B', 'function', ['new B().constructor.name', 'B']],
  ['a bare let before a list', 'let a\n[a] = [3]\na', '3'],
  ['a template after a name', 'const tag = (s) => s.raw[0]\ntag\n`x`', 'x'],
  ['a regular expression after a declaration', "let a = 'b'\n;/b/.test(a)", 'true'],
  ['a division over lines', 'let a = 8\nlet b = a\n/2/1\nb', '4'],
  ['an increment on its own line', 'let a = 1\n++a\na', '2'],
  ['a return on a line of its own', 'let a = 1\nif (a) {\n return\n a\n}\n5', ''],
  ['do and while in one line', 'let n = 0; do n++; while (n < 3) n', '3'],
  // comments
  ['a comment at the end', '1 + 1 // two', '2'],
  ['a comment before the semicolon', '1 + 1 /* two */ ;', '2'],
  ['a line comment before the semicolon', '1 + 1 // two\n;', '2'],
  ['a comment between name and value', 'const a /* one */ = /* two */ 1; a', '1'],
  ['a comment between declarations', 'let /* a */ a = 1 /* , */ , /* b */ b = 2 // end\na + b', '3', ['a + b', '3']],
  ['a comment after const over lines', 'const // here\n a = 1\na', '1'],
  ['a comment of HTML', '<!-- nothing\n1\n--> nothing', '1'],
  ['only a comment', '// nothing', ''],
  ['nothing', '', ''],
  ['only semicolons', ';;;', ''],
  // parentheses and commas
  ['an expression in parentheses', '((1))', '1'],
  ['a function in parentheses that is called', '(function f() { return 1 })()', '1', ['typeof f', 'undefined']],
  ['an async arrow that is called', '(async () => 7)()', '7'],
  ['parentheses with comments', '( /* a */ (2) /* b */ ) /* c */', '2'],
  [
    'an assignment to a pattern in parentheses',
    'let a, b; ({ a, b = 2 } = { a: 1 }); [a, b]',
    '[1, 2]',
    ['[a, b]', '[1, 2]'],
  ],
  ['a comma in parentheses', '(1, 2, 3)', '3'],
  [
    'declarations with commas',
    'let a = 1, b = (2, 3), c, d = [4]; [a, b, c, d]',
    '[1, 3, undefined, [4]]',
    ['[a, b, c, d]', '[1, 3, undefined, [4]]'],
  ],
  [
    'a pattern between commas',
    'var a = 1, { b, c: [d = 4] } = { b: 2, c: [] }, e = 5; [a, b, d, e]',
    '[1, 2, 4, 5]',
    ['[a, b, d, e]', '[1, 2, 4, 5]'],
  ],
  // patterns
  ['defaults that use what stands before', 'const { a = 1, b = a + 1 } = {}; [a, b]', '[1, 2]'],
  ['computed keys', "const k = 'x', { [k]: a } = { x: 9 }; a", '9', ['a', '9']],
  ['rest of a list', 'const [a, ...b] = [1, 2, 3]; b', '[2, 3]', ['b', '[2, 3]']],
  ['a default that is a function', 'const { f = () => 3 } = {}; [f(), f.name]', '[3, "f"]'],
  ['a pattern of what is awaited', "const [a, b] = await llmBatch(['x', 'y']); a + b", 're: xre: y', ['b', 're: y']],
  ['an empty pattern', 'const {} = {}; const [] = []; 1', '1'],
  // texts
  ['a template over lines with code in it', 'const a = `x\n$' + '{[1].map((n) => `$' + '{n}`)}\ny`\na', 'x\n1\ny'],
  ['a text that looks like code', "const a = 'let b = 1; class C {}'\na", 'let b = 1; class C {}'],
  ['a regular expression that looks like code', 'const a = /let b = 1; \\/[/]/.source\na', 'let b = 1; \\/[/]'],
  ['characters beyond the first plane before a declaration', "'😀é'; let a = '😀'; a", '😀', ['a.length', '2']],
  ['names of other letters', 'let ação = 1, π = 3, $ = 4, _ = 5; ação + π + $ + _', '13', ['ação', '1']],
  ['a name with an escape', 'let \\u0061b = 1; ab', '1', ['ab', '1']],
  ['lines that end in another way', 'let a = 1;\r\nlet b = 2;\r\na + b', '3', ['b', '2']],
  // functions and classes
  [
    'a function used before its place',
    'const a = f(1); function f(n) { return n ? f(n - 1) + 1 : 0 } a',
    '1',
    ['f(3)', '3'],
  ],
  ['a function declared twice', 'function f() { return 1 } function f() { return 2 } f()', '2', ['f()', '2']],
  [
    'an async generator',
    'async function* g() { yield 1; yield 2 } const a = []; for await (const n of g()) a.push(n); a',
    '[1, 2]',
    ['g.name', 'g'],
  ],
  [
    'a function’s own variables',
    'function f() { var a = 1; let b = 2; const { c } = { c: 3 }; return a + b + c } f()',
    '6',
    ['[typeof a, typeof b, typeof c]', '["undefined", "undefined", "undefined"]'],
  ],
  [
    'a class with everything',
    'class A { static #n = 1; static { this.m = A.#n + 1 } #p = 3; get p() { return this.#p } async *g() { yield 1 } }\n[A.m, new A().p]',
    '[2, 3]',
    ['A.name', 'A'],
  ],
  [
    'a class that extends another',
    'class A { a() { return 1 } }\nclass B extends A { a() { return super.a() + 1 } }\nnew B().a()',
    '2',
    ['new B() instanceof A', 'true'],
  ],
  [
    'a class that is only an expression',
    'const C = class D {}; [C.name, typeof D]',
    '["D", "undefined"]',
    ['C.name', 'D'],
  ],
  [
    'methods that look like declarations',
    'const o = { let: 1, async: 2, get var() { return 3 }, function: 4 }; Object.values(o)',
    '[1, 2, 3, 4]',
  ],
  [
    'a var in a method of a nested class',
    'if (true) { var K = class { m() { var inner = 1; return inner } } }\nnew K().m()',
    '1',
    ['typeof inner', 'undefined'],
  ],
  // loops, labels and branches
  [
    'a labelled loop with var',
    'outer: for (var i = 0; i < 3; i++) { for (;;) { if (i === 1) break outer; continue outer } }\ni',
    '1',
    ['i', '1'],
  ],
  ['a var of a for loop without a value', 'for (var i = 0, n; i < 2; i++) n = i\nn', '1', ['n', '1']],
  [
    'a var of nested loops',
    'for (var i of [1, 2]) for (var j in { a: 1 }) var k = i + j\nk',
    '2a',
    ['[i, j, k]', '[2, "a", "2a"]'],
  ],
  [
    'a pattern with var in for await',
    'for await (var { a, b = 2 } of [Promise.resolve({ a: 1 })]);\n[a, b]',
    '[1, 2]',
    ['b', '2'],
  ],
  ['a var without braces', 'if (1) var a = 1; else var b = 2;\n[a, typeof b]', '[1, "undefined"]', ['a', '1']],
  [
    'a var in switch, try and with',
    'switch (1) { case 1: var a = 1 } try { throw 2 } catch (e) { var b = e } finally { var c = 3 } with ({}) var d = 4;\n[a, b, c, d]',
    '[1, 2, 3, 4]',
    ['[a, b, c, d]', '[1, 2, 3, 4]'],
  ],
  ['a pattern with var in a block', '{ var { a, b: [c] } = { a: 1, b: [2] } }\n[a, c]', '[1, 2]', ['c', '2']],
  [
    'a let in a loop’s head that closures keep',
    'const f = []; for (let i = 0; i < 3; i++) f.push(() => i); f.map((g) => g())',
    '[0, 1, 2]',
    ['typeof i', 'undefined'],
  ],
  ['a var that is declared twice', 'var a = 1; var a; var a = 2, b = a; [a, b]', '[2, 2]'],
  [
    'a bare var in a loop, which keeps its value',
    'for (let i = 0; i < 3; i++) { var seen; seen = (seen ?? 0) + 1 }\nseen',
    '3',
  ],
  // words that are reserved elsewhere
  [
    'names that are words of the language',
    'var async = 1, of = 2, get = 3, let_ = 4, yield_ = 5, type = 6; async + of + get + type',
    '12',
    ['async', '1'],
  ],
  ['this at the top level', 'this === globalThis', 'true'],
  ['a directive', "'use strict'; undeclared = 1; typeof undeclared", 'number'],
  [
    'new.target and arguments in a function',
    'function F() { return [new.target === F, arguments.length] } new F(1, 2)',
    '[true, 2]',
  ],
  [
    'await in every place',
    'const a = [await 1, { [await "k"]: await 2 }, [...await "3"], (await 4) + await 5]; a',
    '[1, {"k": 2}, ["3"], 9]',
  ],
  [
    'optional chains, nullish and logical assignment',
    'let a = null; a ??= { b: { c: 1 } }; a.d ||= 2; [a?.b?.c, a?.x?.y.z, a.d]',
    '[1, undefined, 2]',
  ],
  ['numbers of every kind', '[0x10, 0b11, 0o17, 1_000, 1e3, .5, 5., 10n]', '[16, 3, 15, 1000, 1000, 0.5, 5, 10n]'],
];

test.each(CASES)('%s', async (_what, code, value, next) => {
  const [output, later] = await outputsOf(pool, next ? [code, next[0]] : [code]);

  expect(output).toBe(value === '' ? '' : `=> ${value}`);
  if (next) expect(later).toBe(`=> ${next[1]}`);
});

describe('The rewritten code', () => {
  test.each(CASES)('has the lines of the given one: %s', (_what, code) => {
    const given = code.split('\n').length;

    expect(rewriteBlock(code).split('\n').length).toBe(given + 1); // and one that closes it
  });

  test.each([
    ['that is not closed', 'f(', 'Unexpected token (line 1, column 2)'],
    ['with what stands at a later line', 'let a = 1\n\n  let b = ]', 'Unexpected token (line 3, column 10)'],
    ['that imports', 'import a from "a"', "'import' and 'export' may appear only"],
    ['that leaves the function it is put in', '})(); (async () => {', 'Unexpected token (line 1, column 0)'],
    ['with a hashbang', '#!/usr/bin/env node', 'Unexpected character'],
    ['with using', 'using a = null', 'Unexpected token'],
  ])('is refused for code %s', (_what, code, message) => {
    expect(() => rewriteBlock(code)).toThrow(CodeError);
    expect(() => rewriteBlock(code)).toThrow(message);
  });

  test.each([
    ['parentheses', `${'('.repeat(100_000)}1${')'.repeat(100_000)}`],
    ['lists', '['.repeat(100_000)],
    ['a sum in a block', `{ x = ${'1 + '.repeat(200_000)}1 }`],
  ])('is refused with the same words for too many %s', (_what, code) => {
    expect(() => rewriteBlock(code)).toThrow(new CodeError(TOO_DEEP));
  });

  test('is refused with the same words where our parser has more room than the engine’s', async () => {
    const code = `${'['.repeat(5000)}${']'.repeat(5000)}`;

    expect(await outputsOf(pool, [code])).toEqual([`FAILED SyntaxError: ${TOO_DEEP}. Nothing of this block was run.`]);
  });
});

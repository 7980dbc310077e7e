import { afterAll, describe, expect, test } from 'vitest';
import { SandboxPool } from '../../../src/agent/sandbox/sandbox-pool.ts';
import { openSandbox, outputsOf, runTurns } from './sandboxes.ts';

const pool = new SandboxPool({ threads: 1, hardLimitMs: 30_000 });
afterAll(() => pool.close());

/** What the last of these turns prints, or how it fails. */
async function lastOf(...turns: (string | string[])[]): Promise<string | undefined> {
  return (await outputsOf(pool, turns)).at(-1);
}

describe('State', () => {
  test.each([
    ['const', 'const a = 1', 'a'],
    ['let', 'let a = 1', 'a'],
    ['var', 'var a = 1', 'a'],
    ['a function', 'function a() { return 1 }', 'a()'],
    ['an async function', 'async function a() { return 1 }', 'await a()'],
    ['a generator', 'function* a() { yield 1 }', '[...a()][0]'],
    ['a class', 'class A { n = 1 }', 'new A().n'],
    ['a name without a declaration', 'a = 1', 'a'],
    ['an object’s pattern', 'const { a } = { a: 1 }', 'a'],
    ['a list’s pattern', 'let [, a] = [0, 1]', 'a'],
    ['a nested pattern with a default and a rest', 'const { x: [{ a = 1 }], ...rest } = { x: [{}] }', 'a'],
    ['a var in a block', 'if (true) { var a = 1 }', 'a'],
    ['a var in the head of a loop', 'for (var a = 0; a < 1; a++);', 'a'],
    ['a var of a for-of loop', 'for (var a of [0, 1]);', 'a'],
    ['a pattern of a for-of loop', 'for (var [a] of [[1]]);', 'a'],
    ['a var of a for-in loop', 'for (var a in { 1: 0 });', 'Number(a)'],
    ['a var in try', 'try { var a = 1; throw 2 } catch {}', 'a'],
    ['a let before an await', 'let a = await llm("x") && 1', 'a'],
    ['a closure', 'let n = 0; const a = () => ++n', 'a()'],
  ])('made by %s lasts to the next turn', async (_what, declaration, use) => {
    expect(await lastOf(declaration, use)).toBe('=> 1');
  });

  test('is declared again in a later turn', async () => {
    expect(await lastOf('const a = 1', 'const a = 2; class B {}', 'let a = 3; class B { x = a }', 'new B()')).toBe(
      '=> {"x": 3}',
    );
  });

  test('of a const can be changed in a later turn', async () => {
    expect(await lastOf('const a = 1', 'a = 2; a')).toBe('=> 2');
  });

  test('of a bare var is kept, of a bare let is not', async () => {
    expect(await lastOf('var a = 1; let b = 1', 'var a; let b; [a, b]')).toBe('=> [1, undefined]');
  });

  test('of a let in a block or a function stays there', async () => {
    const code = 'if (true) { let a = 1; const b = 2 } (function () { var c = 3 })(); [typeof a, typeof b, typeof c]';

    expect(await lastOf(code, '[typeof a, typeof b, typeof c]')).toBe('=> ["undefined", "undefined", "undefined"]');
  });

  test('made before a throw is kept', async () => {
    expect(
      await outputsOf(pool, ["let a = 1; var b = 2; throw new Error('x'); let c = 3", '[a, b, typeof c]']),
    ).toEqual(['FAILED Error: x\n    at turn-1.js line 1', '=> [1, 2, "undefined"]']);
  });

  test('made before code is stopped is kept', async () => {
    expect(await lastOf('let a = 1; for (;;) a++', 'a > 1000')).toBe('=> true');
  });

  test('of a function is there before the function’s place', async () => {
    expect(await lastOf('const a = f(); function f() { return g() } function g() { return 1 } a')).toBe('=> 1');
  });

  test('of functions that know each other is that of the last turn', async () => {
    expect(
      await lastOf('function f() { return g() } function g() { return 1 }', 'function g() { return 2 }', 'f()'),
    ).toBe('=> 2');
  });

  test('keeps the names of functions and classes', async () => {
    expect(await lastOf('function f() {} class C {} const g = () => 1; [f.name, C.name, g.name]')).toBe(
      '=> ["f", "C", "g"]',
    );
  });
});

describe('The value of the last expression', () => {
  test.each([
    ['a number', '1 + 1', '=> 2'],
    ['a text, as it is', '\'a\\n"b"\'', '=> a\n"b"'],
    ['what is awaited', "await llm('x')", '=> re: x'],
    ['a promise, which is awaited', "llm('x')", '=> re: x'],
    ['an object in parentheses', '({ a: 1 })', '=> {"a": 1}'],
    ['an assignment', 'a = 5', '=> 5'],
    ['the last of a comma', '1, 2', '=> 2'],
    ['null', 'null', '=> null'],
    ['undefined, which is not shown', 'undefined', ''],
    ['a declaration, which has none', 'const a = 1', ''],
    ['a loop, which has none', 'for (const a of [1]) a', ''],
    ['what returns at the top level', 'return 7', '=> 7'],
    ['one before a comment', '3 // three', '=> 3'],
    ['an expression over lines', '[1,\n 2]\n  .map((n) => n * 2)', '=> [2, 4]'],
  ])('is shown of %s', async (_what, code, output) => {
    expect(await lastOf(code)).toBe(output);
  });
});

describe('Values are written down', () => {
  test.each([
    ['texts inside of others', "['a', { b: 'c\"' }]", '["a", {"b": "c\\""}]'],
    ['numbers', '[1, -0.5, NaN, Infinity, 10n]', '[1, -0.5, NaN, Infinity, 10n]'],
    ['what is no value', '[null, undefined, true]', '[null, undefined, true]'],
    ['functions', '[() => 1, function f() {}, class A {}]', '[[function ], [function f], [function A]]'],
    ['what belongs to the REPL', '[llm, print]', '[[function llm], [function print]]'],
    ['maps and sets', "[new Map([['a', { b: 1 }]]), new Set([1, 'x'])]", '[Map {"a" => {"b": 1}}, Set {1, "x"}]'],
    ['dates', 'new Date(0)', '1970-01-01T00:00:00.000Z'],
    ['regular expressions', '[/a\\/b/gi]', '[/a\\/b/gi]'],
    ['errors', "[new TypeError('no')]", '[[TypeError: no]]'],
    ['promises', '[Promise.resolve(1)]', '[[a promise: await it to see its value]]'],
    ['cycles', 'const a = [1]; a.push(a); a', '[1, [circular]]'],
    ['what is used twice and no cycle', 'const o = {}; [o, o]', '[{}, {}]'],
    ['symbols', "[Symbol('s')]", '[Symbol(s)]'],
    ['what is too deep', '[[[[[[[[[[1]]]]]]]]]]', '[[[[[[[[[…]]]]]]]]]'],
    ['the context', 'context.map(({ name }) => name)', '["rivers.txt", "hills.txt"]'],
  ])('%s', async (_what, code, written) => {
    expect(await lastOf(code)).toBe(`=> ${written}`);
  });

  test('print takes several values, texts as they are', async () => {
    expect(await lastOf("print('a', 'b c', 1, ['d']); print(); console.log('e'); console.error({ f: 1 })")).toBe(
      'a b c 1 ["d"]\n\ne\n{"f": 1}',
    );
  });
});

describe('Output', () => {
  /** The output of one turn of which this many characters are kept. */
  async function cut(maxOutputChars: number, code: string): Promise<string> {
    const sandbox = openSandbox(pool, { settings: { maxOutputChars } });
    const [report] = await runTurns(sandbox, [code]);
    sandbox.close();
    return report?.output ?? '';
  }

  test.each([
    ['one long text', "print('a'.repeat(5000) + 'b'.repeat(5000))", 10_001],
    ['a text twice as long as may be shown', "print('a'.repeat(600))", 601],
    ['many short lines', 'for (let i = 0; i < 1000; i++) print(i)', 3890],
    ['a long text between short ones', "print('begin'); print('x'.repeat(9000)); print('end')", 6 + 9001 + 4],
    ['two long texts', "print('x'.repeat(9000)); print('y'.repeat(7000))", 9001 + 7001],
  ])('of %s is cut in the middle, with a count of what is missing', async (_what, code, chars) => {
    const output = await cut(300, code);
    const note = /\n\[… (\d+) characters of the output were cut here …\]\n/;
    const [head = '', count = '', tail = ''] = output.split(note);

    expect([head.length, tail.length, Number(count)]).toEqual([150, 150, chars - 300]);
  });

  test('shows its beginning and its end', async () => {
    const output = await cut(200, "print('begin'); print('x'.repeat(9000)); print('end')");

    expect(output.startsWith('begin\nxxx')).toBe(true);
    expect(output.endsWith('xxx\nend\n')).toBe(true);
  });

  test('that fits exactly is whole', async () => {
    expect(await cut(200, "print('x'.repeat(199))")).toBe(`${'x'.repeat(199)}\n`);
    expect(await cut(200, "print('x'.repeat(200))")).toContain('[… 1 characters of the output were cut here …]');
  });

  test('of one turn does not show in the next', async () => {
    expect(await lastOf("print('one')", "print('two')")).toBe('two');
  });

  test('before a failure is kept', async () => {
    expect(await lastOf("print('one'); nothing.at.all")).toMatch(
      /^one\nFAILED ReferenceError: 'nothing' is not defined/,
    );
  });
});

describe('A failure', () => {
  test('names the lines of the code', async () => {
    const code = 'function f() {\n  return g()\n}\nfunction g() {\n  throw new Error("deep")\n}\n\nf()';

    expect(await lastOf(code)).toBe(
      'FAILED Error: deep\n    at g turn-1.js line 5\n    at f turn-1.js line 2\n    at turn-1.js line 8',
    );
  });

  test('names the turn and the block where a function was written', async () => {
    const [, failure] = await outputsOf(pool, [
      ['1', 'function bad() {\n\n  null.x }'],
      ['print(1)', 'bad()'],
    ]);

    expect(failure).toContain('at bad turn-1-2.js line 3\n    at turn-2-2.js line 1');
  });

  test('keeps its line after declarations over several lines', async () => {
    const code =
      'const {\n  a,\n  b\n} = { a: 1,\n b: 2 };\nlet c,\n  d = 2;\nclass E {\n}\nthrow new Error([a, b].join())';

    expect(await lastOf(code)).toBe('FAILED Error: 1,2\n    at turn-1.js line 10');
  });

  test('of syntax runs nothing of the block', async () => {
    expect(await outputsOf(pool, ['var a = 1;\nlet b = = 2', 'typeof a'])).toEqual([
      'FAILED SyntaxError: Unexpected token (line 2, column 8). Nothing of this block was run.',
      '=> undefined',
    ]);
  });

  test('in one block keeps those after it from running', async () => {
    const [output] = await outputsOf(pool, [["print('one')", "print('two'); throw 2", "print('three')"]]);

    expect(output).toBe('one\ntwo\nFAILED thrown: 2');
  });

  test('takes the answer of the turn with it', async () => {
    const sandbox = openSandbox(pool);
    const [report] = await runTurns(sandbox, ["answer({ text: 'a', citations: [] }); throw new Error('later')"]);
    sandbox.close();

    expect(report).toMatchObject({ failure: 'Error: later\n    at turn-1.js line 1', answer: expect.any(String) });
  });

  test('with a long message is told with its beginning and its end', async () => {
    const failure = await lastOf("throw new Error('begin' + 'x'.repeat(10_000) + 'end')");

    expect(failure).toMatch(/^FAILED Error: beginx+ \[… 8015 characters were cut here …\] x+end\n/);
  });
});

describe('Several blocks of one turn', () => {
  test('run one after the other, each with its own value', async () => {
    expect(await lastOf(['let a = 1; a', 'await null; a += 1', 'print(a * 10)'])).toBe('=> 1\n=> 2\n20');
  });

  test('give the last answer', async () => {
    const sandbox = openSandbox(pool);
    const give = (text: string) => `answer({ text: '${text}', citations: [{ document: 'd', quote: 'q', more: 1 }] })`;
    const [report] = await runTurns(sandbox, [[give('one'), give('two')]]);
    const next = await sandbox.run(2, ['1']);
    sandbox.close();

    expect(JSON.parse(report?.answer ?? '')).toEqual({ text: 'two', citations: [{ document: 'd', quote: 'q' }] });
    expect(next.answer).toBeUndefined();
  });
});

describe('Search by words', () => {
  const context = [
    { name: 'a', text: 'São Paulo is a city.\n\nThe city council met; the council voted.\nRivers and bridges' },
    { name: 'b', text: 'The bridge of sao paulo\nCITY of the North, city, city\nNothing here' },
  ];

  /** Where the passages found stand, as document and line. */
  async function found(query: string): Promise<string[]> {
    const sandbox = openSandbox(pool, { context });
    const [report] = await runTurns(sandbox, [
      `print(JSON.stringify(search(${query}).map(({ document, line }) => document + line)))`,
    ]);
    sandbox.close();
    return report?.failure === undefined ? JSON.parse(report?.output ?? '') : [report.failure];
  }

  test('knows neither case nor accents', async () => {
    expect(await found("'SAO páulo'")).toEqual(['a1', 'b1']);
  });

  test('takes a word as the beginning of a longer one, not as its middle', async () => {
    expect(await found("'bridge'")).toEqual(['a4', 'b1']);
    expect(await found("'idge'")).toEqual([]);
  });

  test('puts first what holds more of the words', async () => {
    expect(await found("'city council'")).toEqual(['a3', 'a1', 'b2']);
  });

  test('gives rarer words more weight', async () => {
    expect((await found("'the voted city'"))[0]).toBe('a3');
    expect(await found("'city north'")).toEqual(['b2', 'a1', 'a3']);
  });

  test('gives the earlier of equals first', async () => {
    expect(await found("'city'")).toEqual(['a1', 'a3', 'b2']);
  });

  test('keeps to its limit', async () => {
    expect(await found("'city', 2")).toEqual(['a1', 'a3']);
    expect(await found("'city', 0")).toEqual([]);
  });

  test('finds nothing for no words', async () => {
    expect(await found("''")).toEqual([]);
    expect(await found("' ;!'")).toEqual([]);
  });

  test('gives the passage as it stands', async () => {
    expect(await lastOf("search('evora')")).toBe(
      '=> [{"document": "rivers.txt", "line": 2, "text": "The Évora plain is dry."}]',
    );
  });

  test('with a regular expression gives every line that fits, in order', async () => {
    expect(await found('/c[io]/')).toEqual(['a1', 'a3', 'b2']);
    expect(await found('/C/')).toEqual(['b2']);
    expect(await found('/^$/')).toEqual(['a2']);
    expect(await found('/./, 3')).toEqual(['a1', 'a3', 'a4']);
  });

  test('with a global regular expression forgets where it stood', async () => {
    expect(await found('/c[io]/g')).toEqual(['a1', 'a3', 'b2']);
  });

  test('with anything else says what it takes', async () => {
    expect((await found('5'))[0]).toContain('TypeError: search(pattern): words, or a regular expression');
  });
});

describe('Chunk and fold', () => {
  test('chunk cuts at white space, loses no word and keeps to its size', async () => {
    const code = `const text = context.map(({ text }) => text).join(' '); const pieces = chunk(text, 25);
      [pieces.every((piece) => piece.length <= 25), pieces.join(' ').split(/\\s+/).join() === text.split(/\\s+/).join(), pieces.length]`;

    expect(await lastOf(code)).toBe('=> [true, true, 6]');
  });

  test('chunk cuts a word that is longer than a piece', async () => {
    expect(await lastOf("chunk('abcdefgh ij', 3)")).toBe('=> ["abc", "def", "gh", "ij"]');
  });

  test('chunk gives nothing for white space', async () => {
    expect(await lastOf("chunk(' \\n ', 2)")).toBe('=> []');
  });

  test.each(["chunk('a', 0)", "chunk('a', NaN)", "chunk('a', -1)", 'chunk(5)', "chunk('a', 'x')"])(
    '%s is refused',
    async (code) => {
      expect(await lastOf(code)).toContain('TypeError: chunk(text, size)');
    },
  );

  test('fold gives lower case without accents', async () => {
    expect(await lastOf("[fold('ÀÉÎõÜ ç'), fold(5), fold(null)]")).toBe('=> ["aeiou c", "5", "null"]');
  });
});

describe('Sub-calls', () => {
  test('of a batch that fail are null and said, the others are kept in their order', async () => {
    const sandbox = openSandbox(pool, {
      onCall: async (_kind, prompt) => {
        if (prompt.startsWith('bad')) throw new Error(`cannot read ${prompt}`);
        return prompt.toUpperCase();
      },
    });
    const [report] = await runTurns(sandbox, ["await llmBatch(['a', 'bad', 'c', 'bad too'])"]);
    sandbox.close();

    expect(report?.output).toBe(
      '[sub-call 2: cannot read bad]\n[sub-call 4: cannot read bad too]\n=> ["A", null, "C", null]\n',
    );
    expect(report?.failure).toBeUndefined();
  });

  test('that fail throw where they are awaited', async () => {
    const sandbox = openSandbox(pool, { onCall: () => Promise.reject(new Error('refused')) });
    const [caught, thrown] = await runTurns(sandbox, [
      "try { await llm('x') } catch (error) { print('caught', error.message, error instanceof Error) }",
      "await llm('x')",
    ]);
    sandbox.close();

    expect(caught?.output).toBe('[sub-call 1: refused]\ncaught refused true\n');
    expect(thrown?.failure).toMatch(/^Error: refused/);
  });

  test('that nobody awaits are waited for, and that is said', async () => {
    const prompts: string[] = [];
    const sandbox = openSandbox(pool, {
      onCall: async (_kind, prompt) => {
        prompts.push(prompt);
        return prompt;
      },
    });
    const [one, two, next] = await runTurns(sandbox, [
      "var got; llm('a').then((text) => { got = text }); 1",
      "llm('b'); llm('c'); throw new Error('x')",
      'got',
    ]);
    sandbox.close();

    expect(one?.output).toBe('=> 1\n[1 sub-call was not awaited; this turn waits for them]\n');
    expect(two?.output).toBe('[2 sub-calls were not awaited; this turn waits for them]\n');
    expect(next?.output).toBe('=> a\n');
    expect(prompts).toEqual(['a', 'b', 'c']);
  });

  test('that fail and that nobody awaits are said', async () => {
    const sandbox = openSandbox(pool, { onCall: () => Promise.reject(new Error('refused')) });
    const [report] = await runTurns(sandbox, ["llm('a'); 1"]);
    sandbox.close();

    expect(report?.failure).toBeUndefined();
    expect(report?.output).toContain('[sub-call 1: refused]');
    expect(report?.output).toContain('[a promise that was not awaited was rejected: Error: refused]');
  });

  test('run at the same time', async () => {
    const waiting: (() => void)[] = [];
    const sandbox = openSandbox(pool, {
      onCall: async (_kind, prompt) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        if (waiting.push(resolve) === 3) for (const go of waiting) go();
        await promise;
        return prompt;
      },
    });
    const [report] = await runTurns(sandbox, ["await Promise.all([llm('a'), llmBatch(['b', 'c'])])"]);
    sandbox.close();

    expect(report?.output).toBe('=> ["a", ["b", "c"]]\n');
  });

  test('bring texts of any kind and length there and back', async () => {
    const text = `ä€😀${'x'.repeat(100_000)}\u2028"\\`;
    const sandbox = openSandbox(pool, { onCall: async (_kind, prompt) => prompt });
    const [report] = await runTurns(sandbox, [`const text = ${JSON.stringify(text)}; (await llm(text)) === text`]);
    sandbox.close();

    expect(report?.output).toBe('=> true\n');
  });

  test('are answered even when the turn has spent its steps meanwhile', async () => {
    const sandbox = openSandbox(pool);
    const reports = await runTurns(sandbox, ["for (;;) llm('x')", "await llm('still here')"]);
    sandbox.close();

    expect(reports[0]?.failure).toMatch(/stopped after 100 million steps/);
    expect(reports[1]?.output).toBe('=> re: still here\n');
  });
});

describe('Promises', () => {
  test('A rejection that is caught later in the turn fails nothing', async () => {
    expect(await lastOf("const p = Promise.reject(new Error('x')); try { await p } catch { print('caught') }")).toBe(
      'caught',
    );
  });

  test('A promise that nothing settles fails the turn, and the next goes on', async () => {
    expect(await outputsOf(pool, ['let a = 1; await new Promise(() => {}); a = 2', 'a'])).toEqual([
      'FAILED The code awaits a promise that nothing will ever settle.',
      '=> 1',
    ]);
  });

  test('What runs on after the end does not hold up this turn or the next', async () => {
    const storm = 'var n = 0; (async () => { for (;;) { await null; n++ } })(); 1';

    expect(await outputsOf(pool, [storm, '2', "await llm('x')"])).toEqual(['=> 1', '=> 2', '=> re: x']);
  });

  test('What runs on after the end of an earlier turn does not keep out the answers of many calls', async () => {
    const storm = 'var n = 0; (async () => { for (;;) { await null; n++ } })(); 1';

    expect(await lastOf(storm, "(await llmBatch(Array(300).fill('x'))).length")).toBe('=> 300');
  });

  test('A loop over awaits beside an open call comes to its end', async () => {
    expect(await lastOf("const p = llm('x'); let n = 0; for (; n < 5000; n++) await null; [n, await p]")).toBe(
      '=> [5000, "re: x"]',
    );
  });

  test('What is due when the code ends is still done', async () => {
    expect(await lastOf('var n = 0; Promise.resolve().then(() => { n++ }).then(() => { n++ }); n', 'n')).toBe('=> 2');
  });
});

describe('The context', () => {
  test('that is one text is a text', async () => {
    const sandbox = openSandbox(pool, { context: 'One.\nTwo ü.' });
    const [report] = await runTurns(sandbox, ["[typeof context, context, search('two')[0].document]"]);
    sandbox.close();

    expect(report?.output).toBe('=> ["string", "One.\\nTwo ü.", "context"]\n');
  });

  test('holds every character of the documents', async () => {
    const text = `ä€😀\u2028\r\n\t\u0001${'x'.repeat(200_000)}\ufeffend`;
    const sandbox = openSandbox(pool, {
      context: [
        { name: 'n', text: '' },
        { name: 'ü', text },
      ],
    });
    const [report] = await runTurns(sandbox, [`[context[0].text, context[1].text === ${JSON.stringify(text)}]`]);
    sandbox.close();

    expect(report?.output).toBe('=> ["", true]\n');
  });

  test('holds the character NUL like any other', async () => {
    const sandbox = openSandbox(pool, { context: 'a\u0000b' });
    const [report] = await runTurns(sandbox, ['context']);
    sandbox.close();

    expect(report?.output).toBe('=> a\u0000b\n');
  });

  test('may be empty', async () => {
    const sandbox = openSandbox(pool, { context: [] });
    const [report] = await runTurns(sandbox, ["[context.length, search('x')]"]);
    sandbox.close();

    expect(report?.output).toBe('=> [0, []]\n');
  });
});

describe('recurse', () => {
  test('says so where it is not offered', async () => {
    expect(await lastOf("await recurse('why?', context)")).toContain('Error: recurse is not offered at this depth');
  });

  test('sends a question with its slice, and brings the answer back', async () => {
    const asked: unknown[] = [];
    const sandbox = openSandbox(pool, {
      settings: { canRecurse: true },
      onCall: async (kind, payload) => {
        asked.push([kind, JSON.parse(payload)]);
        return JSON.stringify({ text: 'because', citations: [] });
      },
    });
    const [report] = await runTurns(sandbox, [
      "Array.prototype.toJSON = () => 'forged'; const one = await recurse('why?', context.slice(1)); await recurse('how?', 'a text'); one",
    ]);
    sandbox.close();

    expect(report?.output).toBe('=> {"text": "because", "citations": []}\n');
    expect(asked).toEqual([
      [
        'recurse',
        { question: 'why?', context: [{ name: 'hills.txt', text: 'Serra da Estrela is high.\nNo river here.' }] },
      ],
      ['recurse', { question: 'how?', context: 'a text' }],
    ]);
  });

  test.each([
    "recurse('', context)",
    "recurse('why?', [])",
    "recurse('why?', '')",
    "recurse('why?', [5])",
    'recurse()',
  ])('%s is refused', async (code) => {
    const sandbox = openSandbox(pool, { settings: { canRecurse: true } });
    const [report] = await runTurns(sandbox, [`await ${code}`]);
    sandbox.close();

    expect(report?.failure).toContain('TypeError: recurse(question, slice)');
  });
});

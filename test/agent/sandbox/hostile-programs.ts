/** A program that tries to break its sandbox, and what the root model, or whoever looks at the failed attempt, must be told of it. */
export interface HostileProgram {
  what: string;
  /** Turns of one block each. */
  turns: string[];
  /** Occurs in what the last turn says: its failure, its output, or why its sandbox is broken. */
  told: RegExp;
}

const program = (what: string, told: RegExp, ...turns: string[]): HostileProgram => ({ what, turns, told });

const STOPPED = /The code was stopped after 100 million steps/;
/** How QuickJS says it depends on whether there is room left to say it in; if there is none at all, it may trap. */
const OUT_OF_MEMORY = /out of memory|end of memory|memory is used up/;
const DEEP = /stack overflow/;

const endless: HostileProgram[] = [
  program('a loop with for', STOPPED, 'for (;;);'),
  program('a loop with do, after an await', STOPPED, 'await null; do {} while (true)'),
  program('a getter that loops', STOPPED, '({ get a() { for (;;); } }).a'),
  program('a trap of a proxy that loops', STOPPED, "'a' in new Proxy({}, { has() { for (;;); } })"),
  program('a generator that loops', STOPPED, 'function* g() { yield 1; for (;;); } [...g()]'),
  program('a comparator that loops', STOPPED, '[3, 2, 1].sort(() => { for (;;); })'),
  program('a toString that loops', STOPPED, "print('' + { toString() { for (;;); } })"),
  program('a Symbol.toPrimitive that loops', STOPPED, '+{ [Symbol.toPrimitive]() { for (;;); } }'),
  program('a toJSON that loops', STOPPED, 'JSON.stringify({ toJSON() { for (;;); } })'),
  program('a loop that catches its own end', STOPPED, 'for (;;) try { for (;;); } catch {} finally { continue }'),
  program(
    'a message that loops when it is told',
    STOPPED,
    "throw Object.defineProperty(new Error(), 'message', { get() { for (;;); } })",
  ),
  program(
    'a name that loops when it is told',
    STOPPED,
    "const e = new Error('a'); e.name = { toString() { for (;;); } }; throw e",
  ),
  program('a then that loops', STOPPED, 'await { get then() { for (;;); } }'),
  program('a value that loops when it is shown', STOPPED, '({ get a() { for (;;); } })'),
  program(
    'a trap that loops when the state is written down',
    /=> 2/,
    'var p = new Proxy({}, { ownKeys() { for (;;); } }); 1',
    '1 + 1',
  ),
  program('a loop in code built at run time', STOPPED, "new Function('for (;;);')()"),
];

const deep: HostileProgram[] = [
  program('a function that calls itself', DEEP, 'function f() { return f() + 1 } f()'),
  program('a getter that reads itself', DEEP, '({ get a() { return this.a } }).a'),
  program('an async function that awaits itself', DEEP, '(async function f() { await f() })()'),
  program('a chain of 100,000 proxies', DEEP, 'let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x'),
  program('a long chain of bound functions', DEEP, 'let f = () => 1; for (let i = 0; i < 3e3; i++) f = f.bind(); f()'),
  program('an array nested 100,000 deep as text', DEEP, "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a + ''"),
  program(
    'an array nested 100,000 deep made flat',
    DEEP,
    'let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.flat(Infinity)',
  ),
  program('JSON nested a million deep', DEEP, "JSON.parse('['.repeat(1e6))"),
  program('a regular expression nested 100,000 deep', /SyntaxError/, "new RegExp('(?:'.repeat(1e5) + ')'.repeat(1e5))"),
  program('code nested deep for the engine', DEEP, "eval('['.repeat(1e5) + ']'.repeat(1e5))"),
  program(
    'a limit of a search that searches',
    DEEP,
    "search('douro', { valueOf() { return search('douro', this).length } })",
  ),
  program('code nested deep for the parser', /nests too deeply/, `${'('.repeat(50_000)}1${')'.repeat(50_000)}`),
  program('functions nested deep for the parser', /nests too deeply/, `${'a => '.repeat(20_000)}1`),
];

const greedy: HostileProgram[] = [
  program('arrays without end', OUT_OF_MEMORY, 'const a = []; for (;;) a.push(new Array(10_000).fill(1))'),
  program('a string that doubles without end', /string too long/, "let s = 'xx'; for (;;) s += s"),
  program('typed arrays without end', OUT_OF_MEMORY, 'const a = []; for (;;) a.push(new Uint8Array(1e6))'),
  program(
    'a map without end',
    OUT_OF_MEMORY,
    'const m = new Map(); for (let i = 0; ; i++) m.set(i, new Array(500).fill(i))',
  ),
  program(
    'closures without end',
    OUT_OF_MEMORY,
    'const a = []; for (;;) { const x = new Array(1000).fill(0); a.push(() => x) }',
  ),
  program('a string of a thousand million characters', /invalid string length/, "'x'.repeat(2 ** 30)"),
  program('a padding of 500 million characters', OUT_OF_MEMORY, "'x'.padEnd(5e8)"),
  program('a split into ten million pieces', OUT_OF_MEMORY, "'a'.repeat(1e7).split('')"),
  program('ten million matches', OUT_OF_MEMORY, "[...'a'.repeat(1e7).matchAll(/a/g)]"),
  program('a buffer that grows to 900 MB', OUT_OF_MEMORY, 'new ArrayBuffer(1e6, { maxByteLength: 1e9 }).resize(9e8)'),
  program('a number of a thousand million bits', /too large/, '1n << 1_000_000_000n'),
  program('a list as long as lists can be', /invalid array length/, 'Array.from({ length: 2 ** 50 })'),
  program(
    'a state that fills its memory',
    /=> 2|memory of the sandbox is used up/,
    'var big = []; try { for (;;) big.push(new Uint8Array(1e5)) } catch {} 1',
    'big = null; 1 + 1',
  ),
  program(
    'an answer with citations without end',
    OUT_OF_MEMORY,
    "answer({ text: 'x', citations: new Proxy([], { get: (_, key) => (key === 'length' ? 1e9 : { document: 'a', quote: 'b' }) }) })",
  ),
  program(
    'promises without end',
    OUT_OF_MEMORY,
    'await Promise.all(Array.from({ length: 1e6 }, () => new Promise(() => {})))',
  ),
];

const storms: HostileProgram[] = [
  program(
    'a job that makes the next one due',
    /end of memory|nothing will ever settle/,
    'const f = () => Promise.resolve().then(f); await f()',
  ),
  program('a loop over awaits', STOPPED, 'for (;;) await null'),
  program('a promise that nothing settles', /nothing will ever settle/, 'await new Promise(() => {})'),
  program('a then that never calls back', /nothing will ever settle/, 'await { then() {} }'),
  program('a thenable that resolves with itself', STOPPED, 'await { then(resolve) { resolve(this) } }'),
  program('sub-calls one after the other without end', STOPPED, "for (;;) await llm('x')"),
  program('open sub-calls without end', STOPPED, "for (;;) llm('x')"),
  program('the longest prompts without end', STOPPED, "const p = 'x'.repeat(600_000); for (;;) llm(p)"),
  program('a batch of 200,000 prompts', STOPPED, "await llmBatch(new Array(200_000).fill('x'))"),
  program(
    'rejections that nobody awaits',
    /a promise that was not awaited was rejected: Error: gone/,
    "(async () => { throw new Error('gone') })(); 1",
  ),
  program(
    'a search for a million words',
    STOPPED,
    "for (;;) search(Array.from({ length: 20_000 }, (_, i) => 'w' + i).join(' '))",
  ),
];

const escapes: HostileProgram[] = [
  program(
    'names of Node',
    /=> undefined undefined undefined undefined undefined/,
    "[typeof process, typeof require, typeof fetch, typeof module, typeof Buffer].join(' ')",
  ),
  program(
    'names of QuickJS',
    /=> undefined undefined undefined undefined/,
    "[typeof std, typeof os, typeof scriptArgs, typeof setTimeout].join(' ')",
  ),
  program('process by name', /'process' is not defined/, 'process.exit(1)'),
  program(
    'the global object through a constructor',
    /=> undefined true/,
    "const g = [].constructor.constructor('return this')(); typeof g.process + ' ' + (g === globalThis)",
  ),
  program(
    'the global object through a function of the host',
    /=> undefined/,
    "typeof llm.constructor('return this')().process",
  ),
  program(
    'the constructor of async functions',
    /=> undefined/,
    "await (async () => {}).constructor('return typeof process')()",
  ),
  program('eval', /'require' is not defined/, "eval('require')('fs')"),
  program('an import of a module', /could not load module 'node:fs'/, "await import('node:fs')"),
  program('an import of a file', /could not load module/, "await import('/etc/passwd')"),
  program('an import by a statement', /'import' and 'export' may appear only/, "import fs from 'node:fs'"),
  program('an export', /'import' and 'export' may appear only/, 'export const a = 1'),
  program('import.meta', /import\.meta/, 'import.meta.url'),
  program('the caller of a function', /=> undefined/, 'function f() { return String(f.caller) } f()'),
  program('a trace of the stack', /=> false/, "new Error().stack.includes('node')"),
  program('a brace that closes the wrapper', /SyntaxError/, '}); process.exit(1); (async () => {'),
];

const tricks: HostileProgram[] = [
  program('a context put in the place of another', /context belongs to the REPL/, 'context = []'),
  program('a declaration that hides a function', /llm belongs to the REPL/, 'const llm = async () => "free"'),
  program(
    'an accessor redefined',
    /not configurable/,
    "Object.defineProperty(globalThis, 'answer', { value: () => 1 })",
  ),
  program(
    'a document changed',
    /=> The Douro/,
    "try { context[0].text = 'mine' } catch {} Object.isFrozen(context) && context[0].text.slice(0, 9)",
  ),
  program(
    'methods of arrays overwritten',
    /\[1, 2\]\n.*Error: told/s,
    "for (const key of ['push', 'join', 'map', 'filter', 'slice', 'concat', 'forEach', 'sort']) Array.prototype[key] = () => { throw 1 }; print('[1, 2]'); throw new Error('told')",
  ),
  program(
    'Promise.prototype.then overwritten',
    /=> re: x/,
    "Promise.prototype.then = () => { throw 1 }; await llm('x')",
  ),
  program('Promise overwritten', /=> \["re: a", "re: b"\]/, "Promise = null; await llmBatch(['a', 'b'])"),
  program('JSON overwritten', /=> \{"a": 1\}/, 'JSON.stringify = JSON.parse = () => { throw 1 }; ({ a: 1 })'),
  program(
    'a toJSON for all arrays',
    /Error: told/,
    "Array.prototype.toJSON = () => undefined; throw new Error('told')",
  ),
  program(
    'a setter for all objects',
    /an error that cannot be read/,
    "Object.defineProperty(Object.prototype, '0', { set() { throw 1 } }); throw new Error('told')",
  ),
  program(
    'a Symbol.hasInstance that lies',
    /undefined: undefined/,
    'Object.defineProperty(Error, Symbol.hasInstance, { value: () => true }); throw 5',
  ),
  program(
    'all built-ins deleted',
    /Error: told/,
    'var E = Error; for (const key of Object.getOwnPropertyNames(globalThis)) try { delete globalThis[key] } catch {}',
    "throw new E('told')",
  ),
  program(
    'a frozen global object',
    /'x' is not defined|not extensible|read-only/,
    'Object.freeze(globalThis); 1',
    'let x = 1; x',
  ),
  program(
    'frozen prototypes',
    /=> \[1\]/,
    'Object.freeze(Object.prototype); Object.freeze(Array.prototype); Object.freeze(Promise.prototype); 1',
    '[1]',
  ),
  program(
    'a proxy as prototype of the global object',
    /=> 2/,
    'Object.setPrototypeOf(globalThis, new Proxy({}, { get() { throw 1 } })); 1',
    'let two = 2; two',
  ),
  program('the wrapper’s own name overwritten', /not a function/, '$float = 1; 2; 3'),
];

const forgeries: HostileProgram[] = [
  program('an answer that is a number', /text must be a string/, 'answer({ text: 5, citations: [] })'),
  program(
    'an answer whose text is an object',
    /text must be a string/,
    "answer({ text: { toString: () => 'a' }, citations: [] })",
  ),
  program('an answer of nothing', /text must be a string/, 'answer()'),
  program(
    'citations that are no list',
    /citations must be a list/,
    "answer({ text: 'a', citations: { length: 1, 0: { document: 'a', quote: 'b' } } })",
  ),
  program(
    'a citation with a getter that throws',
    /Error: mine/,
    "answer({ text: 'a', citations: [{ get document() { throw new Error('mine') }, quote: 'q' }] })",
  ),
  program('a citation that is no object', /citation 1 must be/, "answer({ text: 'a', citations: ['q'] })"),
  program('a prompt that is a number', /a prompt must be a text, not 5/, 'await llm(5)'),
  program('a prompt that is an object with toString', /a prompt must be a text/, "await llm({ toString: () => 'x' })"),
  program('a prompt that is a String object', /a prompt must be a text/, "await llm(new String('x'))"),
  program('an empty prompt', /a prompt must be a text/, "await llm('')"),
  program(
    'a prompt of 30 million characters',
    /a prompt of 30000000 characters; at most 600000/,
    "await llm('x'.repeat(3e7))",
  ),
  program('a batch that is no list', /takes a list of prompts/, "await llmBatch({ length: 1e9, 0: 'x' })"),
  program('a batch with a hole', /a prompt must be a text, not undefined/, "await llmBatch(['x', , 'y'])"),
  program(
    'a batch longer than it says',
    /a prompt must be a text, not undefined/,
    "await llmBatch(new Proxy(['x'], { get: (t, key) => (key === 'length' ? 5 : t[key]) }))",
  ),
  program('a nested agent that is not offered', /recurse is not offered/, "await recurse('why?', context)"),
];

const told: HostileProgram[] = [
  program('null thrown', /thrown: null/, 'throw null'),
  program('undefined thrown', /thrown: undefined/, 'throw undefined'),
  program('a symbol thrown', /thrown: Symbol\(s\)/, "throw Symbol('s')"),
  program(
    'a proxy thrown',
    /an error that cannot be read/,
    'throw new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 }, getPrototypeOf() { throw 3 } })',
  ),
  program(
    'a revoked proxy thrown',
    /an error that cannot be read/,
    'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy',
  ),
  program(
    'an error whose message throws',
    /an error that cannot be read/,
    "throw Object.defineProperty(new Error(), 'message', { get() { throw 1 } })",
  ),
  program(
    'an error whose stack is a symbol',
    /an error that cannot be read|Error: a/,
    "const e = new Error('a'); e.stack = Symbol('s'); throw e",
  ),
  program(
    'an error with a message of 3 million characters',
    /2998007|[0-9]+ characters were cut here/,
    "throw new Error('x'.repeat(3e6))",
  ),
  program('a cycle printed', /\[circular\]/, 'const a = {}; a.a = a; print(a)'),
  program('a getter that throws, printed', /Error: no/, "print({ get a() { throw new Error('no') } })"),
  program(
    'a revoked proxy printed',
    /revoked proxy/,
    'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); print(proxy)',
  ),
  program(
    'a value that throws when it is shown',
    /the value cannot be shown: Error: mine/,
    "({ get a() { throw new Error('mine') } })",
  ),
  program('10 MB printed', /9996\d\d\d characters of the output were cut here/, "print('x'.repeat(1e7))"),
  program(
    '20,000 lines printed',
    /characters of the output were cut here/,
    "for (let i = 0; i < 2e4; i++) print('line', i)",
  ),
  program(
    'a value that is everywhere in itself',
    /\{…\}|cut here|\[circular\]/,
    'let v = {}; for (let i = 0; i < 30; i++) v = { a: v, b: v }; print(v)',
  ),
  program('a date that is none', /=> null/, 'new Date(NaN)'),
  program('a symbol shown', /=> Symbol\(x\)/, "Symbol('x')"),
];

const syntax: HostileProgram[] = [
  program('an unclosed brace', /SyntaxError: Unexpected token \(line 1/, 'if (1) {'),
  program('an unclosed text', /SyntaxError: Unterminated string constant \(line 2/, "1;\n'abc"),
  program('an unclosed template', /SyntaxError: Unterminated template/, '`abc'),
  program('an unclosed comment', /SyntaxError: Unterminated comment/, '/* abc'),
  program('a broken regular expression', /SyntaxError: Invalid regular expression/, '/(/'),
  program('a name declared twice', /SyntaxError: Identifier 'a' has already been declared/, 'let a; let a'),
  program('a break outside of a loop', /SyntaxError: Unsyntactic break/, 'break'),
  program('yield outside of a generator', /SyntaxError|'yield' is not defined/, 'yield 1'),
  program('super outside of a class', /SyntaxError/, 'super.x'),
  program('new.target outside of a function', /SyntaxError/, 'new.target'),
  program('a hashbang', /SyntaxError: Unexpected character/, '#!/usr/bin/env node\n1'),
  program('TypeScript', /SyntaxError: Unexpected token/, 'let a: number = 1'),
  program('binary rubbish', /SyntaxError/, '\u0000\u0001\ufffe\ud800'),
  program('NUL inside a text', /=> 3/, "'a\\0b'.length"),
];

/** Programs whose every step is counted, or that are refused: the root model is told, and goes on. */
export const TOLD_PROGRAMS = [
  ...endless,
  ...deep,
  ...greedy,
  ...storms,
  ...escapes,
  ...tricks,
  ...forgeries,
  ...told,
  ...syntax,
];

const ENDED = /the code ran for .* s where it could not be stopped, and its sandbox was ended/;

/** Programs in which the engine itself runs without end, where no step is counted: the sandbox is ended. */
export const ENDED_PROGRAMS: HostileProgram[] = [
  program('a regular expression that blows up', ENDED, "/^(a+)+$/.test('a'.repeat(40) + 'b')"),
  program('a list of 4 thousand million holes as text', ENDED, "new Array(4e9) + ''"),
  program('a search in a list without end', ENDED, '[].indexOf.call({ length: 2 ** 50 }, 1)'),
  program('a list of holes turned round', ENDED, 'const a = []; a.length = 2 ** 32 - 1; a.reverse()'),
  program(
    'a regular expression that blows up in a job',
    ENDED,
    "await Promise.resolve().then(() => /^(a+)+$/.test('a'.repeat(40) + 'b'))",
  ),
];

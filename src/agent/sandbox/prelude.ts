/** What the host offers the prelude; only text crosses the border. */
export interface Host {
  /** Takes a piece of output; `skipped` characters in its middle were left out. */
  write(head: string, skipped: number, tail: string): void;
  /** The text of the document at this place in the context. */
  text(index: number): string;
  /** JSON of the passages that fit some words best. */
  search(words: string, limit: number): string;
  /** Lower case without accents. */
  fold(text: string): string;
  /** A call out of the sandbox; resolves with the answer. */
  call(kind: string, payload: string): Promise<string>;
  /** Takes JSON of an answer. */
  answer(json: string): void;
}

export interface PreludeConfig {
  names: string[];
  isText: boolean;
  canRecurse: boolean;
  /** Four unsigned 32-bit words. */
  seed: [number, number, number, number];
  maxWriteChars: number;
  maxPromptChars: number;
  maxStateChars: number;
}

/** What the host asks of the guest; all of it survives whatever the guest has done to its built-ins, or throws. */
export interface Inside {
  /** The text shown for the value of a turn's last expression; nothing for undefined. */
  show(value: unknown): void;
  /** JSON of `[name and message, stack]`. */
  explain(error: unknown): string;
  /** Notes the end of a promise that the code did not await. */
  float(value: unknown): void;
  /** A text that differs when what is reachable from the guest's globals differs. */
  state(): string;
}

/**
 * Runs first in every sandbox, inside of it: its source is taken as text, so it must use nothing from outside but its parameters. Builds the
 * REPL's names, takes away what would make two runs differ, and returns what the host needs.
 */
export function prelude(host: Host, config: PreludeConfig): Inside {
  const { stringify, parse } = JSON;
  const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, setPrototypeOf, freeze, is, keys } = Object;
  const { ownKeys, apply } = Reflect;
  const globals = globalThis;
  const isArray = Array.isArray;
  const NativePromise = Promise;
  const NativeError = Error;
  const NativeMap = Map;
  const NativeSet = Set;
  const NativeDate = Date;
  const NativeRegExp = RegExp;
  const NativeTypeError = TypeError;
  const toSource = Function.prototype.toString;
  const forEachOfMap = Map.prototype.forEach;
  const forEachOfSet = Set.prototype.forEach;
  const timeOf = Date.prototype.getTime;
  const then = Promise.prototype.then;
  const test = RegExp.prototype.test;
  const patternOf = RegExp.prototype.toString;
  const sliceOf = String.prototype.slice;
  const splitText = String.prototype.split;
  const sortList = Array.prototype.sort;
  const joinList = Array.prototype.join;

  const slice = (text: string, from: number, to?: number): string => apply(sliceOf, text, [from, to]);

  /** A list or an object on which nothing has an effect that the guest puts into prototypes: no `toJSON`, no setter. */
  const bare = <T extends object>(value: T): T => setPrototypeOf(value, null);

  // What differs between two runs, or tells when memory is collected, does not exist here. The clock stands still outside of this code.
  for (const name of ['WeakRef', 'FinalizationRegistry', 'SharedArrayBuffer']) Reflect.deleteProperty(globalThis, name);
  const [...random] = config.seed;
  defineProperty(Math, 'random', { value: nextRandom, writable: false, configurable: false });

  /** sfc32, as published by Chris Doty-Humphrey (PractRand). */
  function nextRandom(): number {
    let [a = 0, b = 0, c = 0, d = 0] = random;
    const sum = (a + b + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    random[0] = a;
    random[1] = b;
    random[2] = c;
    random[3] = d;
    return (sum >>> 0) / 4294967296;
  }

  // --- what the root model uses -------------------------------------------------------------------------------------------------------

  /** Texts come in when they are first looked at, and stay: code that goes through one letter by letter must not fetch it each time. */
  const texts = bare<string[]>([]);
  function textOf(index: number): string {
    texts[index] ??= host.text(index);
    return texts[index];
  }

  const context = buildContext();

  function buildContext(): unknown {
    if (config.isText) return undefined; // read when it is asked for, below
    return freeze(
      config.names.map((name, index) => {
        const document = { name };
        defineProperty(document, 'text', { get: () => textOf(index), enumerable: true });
        return freeze(document);
      }),
    );
  }

  function print(...values: unknown[]): void {
    let line = '';
    for (let index = 0; index < values.length; index += 1)
      line += (index === 0 ? '' : ' ') + (typeof values[index] === 'string' ? values[index] : inspect(values[index]));
    write(`${line}\n`);
  }

  function write(text: string): void {
    const half = config.maxWriteChars / 2;
    if (text.length <= config.maxWriteChars) host.write(text, 0, '');
    else host.write(slice(text, 0, half), text.length - 2 * half, slice(text, text.length - half));
  }

  function llm(prompt: string): Promise<string> {
    return host.call('llm', checkPrompt(prompt, 'llm'));
  }

  /** Waits for all of them: the answers of those that succeed are paid for, whatever becomes of the others. */
  async function llmBatch(prompts: readonly string[]): Promise<(string | null)[]> {
    if (!isArray(prompts)) throw new NativeTypeError('llmBatch takes a list of prompts');
    const checked: string[] = [];
    for (let index = 0; index < prompts.length; index += 1) checked[index] = checkPrompt(prompts[index], 'llmBatch');
    const calls: Promise<string>[] = [];
    for (let index = 0; index < checked.length; index += 1) calls[index] = host.call('llm', checked[index] ?? '');
    const answers: (string | null)[] = [];
    for (let index = 0; index < calls.length; index += 1) {
      try {
        answers[index] = (await calls[index]) ?? null;
      } catch {
        answers[index] = null; // the host has printed why
      }
    }
    return answers;
  }

  async function recurse(question: string, part: unknown): Promise<unknown> {
    if (!config.canRecurse) throw new NativeError('recurse is not offered at this depth (option max_depth): use llm');
    if (typeof question !== 'string' || question === '')
      throw new NativeTypeError('recurse(question, slice): the question must be a text');
    return parse(await host.call('recurse', stringify(bare({ question, context: checkSlice(part) }))));
  }

  function checkPrompt(prompt: unknown, name: string): string {
    if (typeof prompt !== 'string' || prompt === '')
      throw new NativeTypeError(`${name}: a prompt must be a text, not ${inspect(prompt)}`);
    if (prompt.length > config.maxPromptChars)
      throw new NativeTypeError(
        `${name}: a prompt of ${prompt.length} characters; at most ${config.maxPromptChars}. Give it less text at a time`,
      );
    return prompt;
  }

  function checkSlice(part: unknown): unknown {
    if (typeof part === 'string' && part !== '') return part;
    const documents = bare<{ name: string; text: string }[]>([]);
    const given = isArray(part) ? part : [part];
    for (let index = 0; index < given.length; index += 1) {
      const { name, text } = (given[index] ?? {}) as { name?: unknown; text?: unknown };
      if (typeof name !== 'string' || typeof text !== 'string')
        throw new NativeTypeError('recurse(question, slice): the slice must be a text, or a list of { name, text }');
      documents[index] = bare({ name, text });
    }
    if (documents.length === 0) throw new NativeTypeError('recurse(question, slice): the slice is empty');
    return documents;
  }

  interface Passage {
    document: string;
    line: number;
    text: string;
  }

  function search(pattern: unknown, limit = 20): Passage[] {
    if (typeof pattern === 'string') return parse(host.search(pattern, +limit));
    if (!(pattern instanceof NativeRegExp))
      throw new NativeTypeError('search(pattern): words, or a regular expression');
    const found: Passage[] = [];
    for (let index = 0; index < config.names.length; index += 1) {
      const lines: string[] = apply(splitText, textOf(index), ['\n']);
      for (let line = 0; line < lines.length; line += 1) {
        const text = lines[line] ?? '';
        pattern.lastIndex = 0;
        if (!apply(test, pattern, [text])) continue;
        found[found.length] = { document: config.names[index] ?? '', line: line + 1, text };
        if (found.length >= limit) return found;
      }
    }
    return found;
  }

  function chunk(text: string, size = 4000): string[] {
    if (typeof text !== 'string' || !(size > 0))
      throw new NativeTypeError('chunk(text, size): a text, and a number of characters');
    const pieces: string[] = [];
    let from = 0;
    while (from < text.length) {
      let to = from + size;
      if (to < text.length) {
        const gap = slice(text, from, to).search(/\s\S*$/);
        if (gap > 0) to = from + gap;
      }
      const piece = slice(text, from, to).trim();
      if (piece !== '') pieces[pieces.length] = piece;
      from = to;
    }
    return pieces;
  }

  function fold(text: unknown): string {
    return host.fold(`${text}`);
  }

  function answer(given: unknown): void {
    const { text, citations } = (given ?? {}) as { text?: unknown; citations?: unknown };
    const usage = 'answer({ text, citations: [{ document, quote }] })';
    if (typeof text !== 'string') throw new NativeTypeError(`${usage}: text must be a string`);
    if (!isArray(citations)) throw new NativeTypeError(`${usage}: citations must be a list`);
    const checked = bare<{ document: string; quote: string }[]>([]);
    for (let index = 0; index < citations.length; index += 1) {
      const { document, quote } = (citations[index] ?? {}) as { document?: unknown; quote?: unknown };
      if (typeof document !== 'string' || typeof quote !== 'string')
        throw new NativeTypeError(`${usage}: citation ${index + 1} must be { document, quote }, both strings`);
      checked[index] = bare({ document, quote });
    }
    host.answer(stringify(bare({ text, citations: checked })));
  }

  const scaffold = new NativeMap<unknown, string>();
  function offer(name: string, get: () => unknown): void {
    defineProperty(globalThis, name, {
      get,
      set() {
        throw new NativeTypeError(`${name} belongs to the REPL and cannot be replaced: choose another name`);
      },
      enumerable: false,
      configurable: false,
    });
  }
  for (const [name, value] of Object.entries({ print, llm, llmBatch, recurse, search, chunk, fold, answer })) {
    scaffold.set(freeze(value), name);
    offer(name, () => value);
  }
  const console = freeze({ log: print, info: print, warn: print, error: print, debug: print });
  scaffold.set(console, 'console');
  offer('console', () => console);
  if (!config.isText) scaffold.set(context, 'context');
  offer('context', config.isText ? () => textOf(0) : () => context);

  // --- what the host uses -------------------------------------------------------------------------------------------------------------

  const MAX_DEPTH = 8;

  /** A value as a person would write it down. */
  function inspect(value: unknown, depth = 0, above: unknown[] = []): string {
    if (typeof value === 'string') return stringify(value);
    if (typeof value === 'bigint') return `${value}n`;
    if (typeof value === 'function') return `[function ${scaffold.get(value) ?? value.name}]`;
    if (typeof value === 'symbol') return value.toString();
    if (typeof value !== 'object' || value === null) return `${value}`;
    if (value instanceof NativePromise) return '[a promise: await it to see its value]';
    if (value instanceof NativeError) return `[${nameOf(value)}]`;
    if (value instanceof NativeRegExp) return `${value}`;
    if (value instanceof NativeDate) return value.toJSON();
    for (let index = 0; index < above.length; index += 1) if (above[index] === value) return '[circular]';
    if (depth >= MAX_DEPTH) return isArray(value) ? '[…]' : '{…}';
    const chain = [...above, value];
    const parts: string[] = [];
    const add = (part: string) => {
      parts[parts.length] = part;
    };
    if (isArray(value)) {
      for (let index = 0; index < value.length; index += 1) add(inspect(value[index], depth + 1, chain));
      return `[${parts.join(', ')}]`;
    }
    if (value instanceof NativeMap) {
      apply(forEachOfMap, value, [
        (item: unknown, key: unknown) => add(`${inspect(key, depth + 1, chain)} => ${inspect(item, depth + 1, chain)}`),
      ]);
      return `Map {${parts.join(', ')}}`;
    }
    if (value instanceof NativeSet) {
      apply(forEachOfSet, value, [(item: unknown) => add(inspect(item, depth + 1, chain))]);
      return `Set {${parts.join(', ')}}`;
    }
    for (const key of keys(value))
      add(`${stringify(key)}: ${inspect((value as Record<string, unknown>)[key], depth + 1, chain)}`);
    return `{${parts.join(', ')}}`;
  }

  function nameOf(error: Error): string {
    return `${error.name}: ${error.message}`;
  }

  function explain(error: unknown): string {
    try {
      if (error === null) return stringify(bare(['thrown: null, which is also what the end of memory looks like', '']));
      if (error instanceof NativeError) return stringify(bare([nameOf(error), `${error.stack}`]));
      return stringify(bare([`thrown: ${inspect(error)}`, '']));
    } catch {
      return stringify(bare(['an error that cannot be read', '']));
    }
  }

  function float(value: unknown): void {
    if (!(value instanceof NativePromise)) return;
    apply(then, value, [
      undefined,
      (error: unknown) => write(`[a promise that was not awaited was rejected: ${parse(explain(error))[0]}]\n`),
    ]);
  }

  const builtIn = new NativeMap<PropertyKey, unknown>();
  for (const name of ownKeys(globals)) builtIn.set(name, getOwnPropertyDescriptor(globals, name)?.value);
  const knows = NativeMap.prototype.has;
  const recall = NativeMap.prototype.get;
  const remember = NativeMap.prototype.set;

  /** Everything the guest has put into its globals, written down; identical objects by the number of their first appearance. */
  function state(): string {
    const seen = new NativeMap<unknown, number>();
    let lastSeen = 0;
    const written = bare<string[]>([]);
    let room = config.maxStateChars;
    const put = (text: string) => {
      room -= text.length;
      if (room >= 0) written[written.length] = text;
    };
    const names = bare<string[]>([]);
    const all = ownKeys(globals);
    for (let index = 0; index < all.length; index += 1) {
      const name = all[index];
      if (typeof name !== 'string') continue;
      if (
        !apply(knows, builtIn, [name]) ||
        !is(getOwnPropertyDescriptor(globals, name)?.value, apply(recall, builtIn, [name]))
      )
        names[names.length] = name;
    }
    apply(sortList, names, []);
    for (let index = 0; index < names.length; index += 1) {
      put(names[index] ?? '');
      describeProperty(globals, names[index] ?? '', 0);
    }
    if (room < 0) written[written.length] = 'and more';
    return apply(joinList, written, [';']);

    function describeProperty(owner: object, key: PropertyKey, depth: number): void {
      const property = getOwnPropertyDescriptor(owner, key);
      if (property && 'value' in property) describe(property.value, depth);
      else put('accessor');
    }

    function describe(value: unknown, depth: number): void {
      if (room < 0) return;
      if (typeof value === 'string') return void put(`s${value.length}:${ends(value)}`);
      if (typeof value === 'number') return void put(is(value, -0) ? '-0' : `${value}`);
      if (typeof value === 'symbol') return void put('symbol');
      if (typeof value !== 'object' && typeof value !== 'function') return void put(`${typeof value} ${value}`);
      if (value === null) return void put('null');
      const known = apply(recall, scaffold, [value]) ?? apply(recall, seen, [value]);
      if (known !== undefined) return void put(`#${known}`);
      apply(remember, seen, [value, lastSeen]);
      lastSeen += 1;
      if (depth > 100) return void put('deep');
      try {
        describeObject(value, depth + 1);
      } catch {
        put('unreadable'); // a proxy, or what is of another kind than its prototype says
      }
    }

    /** A long text, such as all of a context, must not take the room of everything else. */
    function ends(text: string): string {
      const most = config.maxStateChars / 50;
      return text.length <= 2 * most ? text : `${slice(text, 0, most)}…${slice(text, text.length - most)}`;
    }

    function describeObject(value: object, depth: number): void {
      if (typeof value === 'function') {
        put(`f${apply(toSource, value, [])}`);
        return void describeOwn(value, depth);
      }
      if (value instanceof NativePromise) return void put('promise');
      if (value instanceof NativeMap) {
        put('map');
        return void apply(forEachOfMap, value, [
          (item: unknown, key: unknown) => {
            describe(key, depth);
            describe(item, depth);
          },
        ]);
      }
      if (value instanceof NativeSet) {
        put('set');
        return void apply(forEachOfSet, value, [(item: unknown) => describe(item, depth)]);
      }
      if (value instanceof NativeDate) return void put(`date ${apply(timeOf, value, [])}`);
      if (value instanceof NativeRegExp) put(`r${apply(patternOf, value, [])}`);
      const maker = getPrototypeOf(value)?.constructor;
      put(isArray(value) ? `a${value.length}` : `o${typeof maker === 'function' ? maker.name : ''}`);
      describeOwn(value, depth);
    }

    function describeOwn(value: object, depth: number): void {
      const own = ownKeys(value);
      for (let index = 0; index < own.length && room >= 0; index += 1) {
        const key = own[index];
        if (typeof key !== 'string') continue;
        put(key);
        describeProperty(value, key, depth);
      }
    }
  }

  return {
    show(value) {
      if (value !== undefined) write(`=> ${typeof value === 'string' ? value : inspect(value)}\n`);
    },
    explain,
    float,
    state,
  };
}

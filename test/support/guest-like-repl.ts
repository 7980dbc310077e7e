import { createContext, Script } from 'node:vm';
import { type Program, parse } from 'acorn';

/** A document a program may read. */
export type GuestDocument = { readonly name: string; readonly text: string };
/** What a program ended the run with. */
export type GuestAnswer = { text: string; citations: { document: string; quote: string }[] };
/** How one program went. */
export type GuestTurn = {
  readonly printed: string[];
  /** Name and message of what kept the program from its end. */
  readonly error: string | undefined;
  /** Prompts of the sub-calls, in the order in which they were made. */
  readonly prompts: string[];
};

/**
 * A stand-in for the sandbox a root model's programs run in, with the same functions and no isolation: top-level
 * declarations persist from one program to the next, `search` looks line by line for a pattern, or
 * for words or their beginnings.
 */
export class GuestLikeRepl {
  /** What `answer` was called with, once it was. */
  answer: GuestAnswer | undefined;
  readonly #documents: readonly GuestDocument[];
  readonly #guest: object;
  #printed: string[] = [];
  #prompts: string[] = [];

  /** `subModel` answers the sub-calls; a rejection is a failed call. */
  constructor(context: string | readonly GuestDocument[], subModel: (prompt: string) => Promise<string>) {
    this.#documents = typeof context === 'string' ? [{ name: 'context', text: context }] : context;
    const llm = (prompt: string) => {
      this.#prompts.push(prompt);
      return subModel(prompt);
    };
    this.#guest = createContext({
      context,
      llm,
      llmBatch: (prompts: string[]) => Promise.all(prompts.map((prompt) => llm(prompt).catch(() => null))),
      print: (...values: unknown[]) => this.#printed.push(values.join(' ')),
      search: (pattern: string | RegExp, limit = 20) => this.#search(pattern, limit),
      chunk,
      fold,
      answer: (given: GuestAnswer) => {
        this.answer = given;
      },
    });
  }

  /** Runs one program to its end. */
  async run(code: string): Promise<GuestTurn> {
    this.#printed = [];
    this.#prompts = [];
    let error: string | undefined;
    try {
      await new Script(withGlobalDeclarations(code)).runInContext(this.#guest);
    } catch (thrown) {
      error = String(thrown);
    }
    return { printed: this.#printed, error, prompts: this.#prompts };
  }

  /** Citations of the answer that do not stand in the document they name. */
  get wrongCitations(): GuestAnswer['citations'] {
    return (this.answer?.citations ?? []).filter(({ document, quote }) => {
      const text = this.#documents.find(({ name }) => name === document)?.text;
      return quote.trim() === '' || !text || !flat(text).includes(flat(quote));
    });
  }

  #search(pattern: string | RegExp, limit: number): { document: string; text: string }[] {
    const passages = this.#documents.flatMap(({ name, text }) =>
      text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [{ document: name, text: line }])),
    );
    if (typeof pattern !== 'string') return passages.filter(({ text }) => text.search(pattern) >= 0).slice(0, limit);
    const words = new Set(wordsOf(pattern));
    const ranked = passages.map((passage) => {
      const held = wordsOf(passage.text);
      return { passage, rank: [...words].filter((word) => held.some((other) => other.startsWith(word))).length };
    });
    return ranked
      .filter(({ rank }) => rank > 0)
      .sort((a, b) => b.rank - a.rank)
      .slice(0, limit)
      .map(({ passage }) => passage);
  }
}

function wordsOf(text: string): string[] {
  return fold(text).match(/[\p{L}\p{N}]+/gu) ?? [];
}

function fold(text: string): string {
  return text
    .normalize('NFD')
    .replace(/\p{M}+/gu, '')
    .toLowerCase();
}

function flat(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}

function chunk(text: string, size: number): string[] {
  const chunks: string[] = [];
  let rest = text.trim();
  while (rest.length > size) {
    const space = rest.slice(0, size + 1).search(/\s\S*$/);
    chunks.push(rest.slice(0, space > 0 ? space : size));
    rest = rest.slice(space > 0 ? space : size).trim();
  }
  return rest === '' ? chunks : [...chunks, rest];
}

/** Throws SyntaxError where `code` is not a program the sandbox takes. */
export function parseProgram(code: string): Program {
  return parse(code, { ecmaVersion: 2023, allowAwaitOutsideFunction: true });
}

/** `code` in an async function that leaves its declarations behind as globals. Throws SyntaxError if it does not parse. */
function withGlobalDeclarations(code: string): string {
  const { body } = parseProgram(code);
  let hoisted = '';
  const statements = body.map((statement) => {
    const text = code.slice(statement.start, statement.end);
    if (statement.type === 'FunctionDeclaration') {
      hoisted += `globalThis.${statement.id.name} = ${statement.id.name};\n`;
      return text;
    }
    if (statement.type === 'ClassDeclaration') return `globalThis.${statement.id.name} = ${text};`;
    if (statement.type !== 'VariableDeclaration') return text;
    // Assigned without a declaration, in sloppy mode, a name becomes a global.
    return statement.declarations
      .map(
        ({ id, init }) =>
          `(${code.slice(id.start, id.end)} = ${init ? code.slice(init.start, init.end) : 'undefined'});`,
      )
      .join('\n');
  });
  return `(async () => {\n${hoisted}${statements.join('\n')}\n})()`;
}

import { type Node, type Options, type Program, parse, type VariableDeclaration } from 'acorn';

/** The parameter under which rewritten code gets the function that looks after promises nobody awaits. */
const FLOAT = '$float';
/** Declared functions keep their place, for hoisting, under another name. */
const HOISTED = '$hoisted_';

const SYNTAX: Options = {
  ecmaVersion: 2024,
  sourceType: 'script',
  allowAwaitOutsideFunction: true,
  allowReturnOutsideFunction: true,
  allowHashBang: false, // it would not stand first in what is run
};

/** Said alike by whichever parser's stack ends first: how deep ours goes differs from run to run. */
export const TOO_DEEP = 'the code nests too deeply to be parsed';

/** A block of code that cannot be run, with the place where it fails. */
export class CodeError extends Error {
  override readonly name = 'SyntaxError';
}

interface Edit {
  from: number;
  to: number;
  text: string;
}

/**
 * Makes a block of a REPL into an async function of one parameter, without moving any line: what it declares at its top level becomes global,
 * so that it may be declared again and outlives a failure; the value of its last expression is returned; the promises of the others are
 * looked after. Throws CodeError where the code cannot be parsed.
 */
export function rewriteBlock(code: string): string {
  const program = parseBlock(code);
  try {
    return rewrite(program, code);
  } catch (error) {
    throw error instanceof RangeError ? new CodeError(TOO_DEEP) : error;
  }
}

function rewrite(program: Program, code: string): string {
  const edits: Edit[] = [];
  const hoisted: string[] = [];
  const last = program.body.at(-1);
  for (const statement of program.body) {
    if (statement.type === 'FunctionDeclaration') {
      hoisted.push(`${statement.id.name} = $own(${HOISTED}${statement.id.name}, '${statement.id.name}');`);
      edits.push({ from: statement.id.start, to: statement.id.start, text: HOISTED });
    } else if (statement.type === 'ClassDeclaration') {
      edits.push({ from: statement.start, to: statement.start, text: `${statement.id.name} = ` });
      edits.push({ from: statement.end, to: statement.end, text: ';' });
    } else if (statement.type === 'VariableDeclaration') {
      edits.push(...assignments(statement, code));
    } else if (statement.type === 'ExpressionStatement') {
      const { start, end } = statement.expression;
      const opening = code.slice(statement.start, start); // a parenthesis belongs to the statement, not to its expression
      const closing = code.slice(end, statement.end).replace(/;$/, '');
      // two parentheses, so that of `a, b` the last is looked after, which is the value of both
      const before = statement === last ? 'return ((' : `${FLOAT}((`;
      edits.push({ from: statement.start, to: start, text: `${before}${opening}` });
      edits.push({ from: end, to: statement.end, text: `${closing}));` });
    } else {
      for (const declaration of nestedVars(statement)) edits.push(...assignments(declaration, code));
    }
  }
  const own = `const $own = (f, name) => Object.defineProperty(f, 'name', { value: name });`;
  return `(async (${FLOAT}) => { ${hoisted.length > 0 ? own : ''}${hoisted.join(' ')}; ${apply(code, edits)}\n})`;
}

/** Throws CodeError where `code` is no code. */
export function parseBlock(code: string): Program {
  try {
    return parse(code, SYNTAX);
  } catch (error) {
    if (!(error instanceof SyntaxError) || error.message.startsWith('Not enough stack space'))
      throw new CodeError(TOO_DEEP);
    throw new CodeError(error.message.replace(/\((\d+):(\d+)\)$/, '(line $1, column $2)'));
  }
}

/** `let a = 1, { b } = c` becomes `a = 1, void ({ b } = c)`; in the head of a loop there is nothing to put around. */
function assignments(declaration: VariableDeclaration & { isHead?: boolean }, code: string): Edit[] {
  const edits: Edit[] = [];
  const [first] = declaration.declarations;
  if (first === undefined) return edits;
  edits.push({
    from: declaration.start,
    to: first.start,
    text: code.slice(declaration.start, first.start).replaceAll(/[^\n]/g, ''),
  });
  for (const { id, init, start, end } of declaration.declarations) {
    const isPattern = id.type !== 'Identifier';
    // not a bare parenthesis, which a line without a semicolon before it would take for the arguments of a call
    if (isPattern && init) edits.push({ from: start, to: start, text: 'void (' }, { from: end, to: end, text: ')' });
    if (init || declaration.isHead) continue;
    const name = code.slice(id.start, id.end);
    // `var x;` keeps the value of an earlier turn, as it would in one script
    edits.push({ from: end, to: end, text: declaration.kind === 'var' ? ` = globalThis.${name}` : ' = undefined' });
  }
  return edits;
}

/** Declarations by `var` inside blocks and loops, which belong to the top level; functions keep theirs. */
function nestedVars(node: Node): (VariableDeclaration & { isHead?: boolean })[] {
  const found: (VariableDeclaration & { isHead?: boolean })[] = [];
  const visit = (node: Node, isHead: boolean) => {
    if (isFunction(node)) return;
    if (isVar(node)) {
      found.push(Object.assign(node, { isHead }));
      return;
    }
    for (const [key, value] of Object.entries(node)) {
      const inHead = key === 'left' && (node.type === 'ForOfStatement' || node.type === 'ForInStatement');
      for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child, inHead);
    }
  };
  visit(node, false);
  return found;
}

function isVar(node: Node): node is VariableDeclaration {
  return node.type === 'VariableDeclaration' && (node as VariableDeclaration).kind === 'var';
}

function isFunction({ type }: Node): boolean {
  return type === 'FunctionDeclaration' || type === 'FunctionExpression' || type === 'ArrowFunctionExpression';
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

function apply(code: string, edits: Edit[]): string {
  let result = '';
  let at = 0;
  for (const { from, to, text } of edits.sort((a, b) => a.from - b.from || a.to - b.to)) {
    result += code.slice(at, from) + text;
    at = to;
  }
  return result + code.slice(at);
}

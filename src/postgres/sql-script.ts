import { escapeIdentifier, escapeLiteral } from 'pg';

/** A piece of a psql script: a statement with its variables filled in, or a backslash command. */
export type ScriptStep =
  | { kind: 'statement'; text: string; line: number }
  | { kind: 'command'; name: string; words: string[]; line: number };

/** What the reader of a script meets next, in this order of precedence. */
const TOKEN = new RegExp(
  [
    String.raw`(?<comment>--[^\n]*|(?<block>/\*))`,
    String.raw`(?<quoted>[eE]'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?<tag>\w*)\$[\s\S]*?\$\k<tag>\$)`,
    '(?<cast>::)',
    String.raw`:(?:'(?<literal>\w+)'|"(?<identifier>\w+)"|(?<plain>\w+))`,
    String.raw`(?<command>\\[^\n]*)`,
    '(?<end>;)',
    String.raw`(?<other>[\w$]+|[\s\S])`,
  ].join('|'),
  'y',
);

/**
 * Reads a script as psql does, within the part of psql's language that the project's own scripts use: statements, `:name`, `:'name'`,
 * `:"name"` from `variables`, and backslash commands, whose words may be quoted. Steps are yielded one by one, so that a `\set` that the
 * caller performs counts for what follows. Unknown variables stay as they are, which Postgres then refuses.
 */
export function* readScript(script: string, variables: ReadonlyMap<string, string>): Generator<ScriptStep> {
  let text = '';
  let start = 0;
  for (let at = 0; at < script.length; ) {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(script);
    if (match === null) break;
    const groups = match.groups ?? {};
    if (text.trim() === '') start = at;
    at = groups.block === undefined ? TOKEN.lastIndex : endOfComment(script, TOKEN.lastIndex);
    if (groups.command !== undefined) {
      const [name = '', ...words] = splitWords(groups.command.slice(1), variables);
      yield { kind: 'command', name, words, line: lineAt(script, match.index) };
    } else if (groups.end !== undefined) {
      if (text.trim() !== '') yield { kind: 'statement', text: text.trim(), line: lineAt(script, start) };
      text = '';
    } else if (groups.comment === undefined) text += fillIn(match[0], groups, variables);
    else text += ' ';
  }
  if (text.trim() !== '') yield { kind: 'statement', text: text.trim(), line: lineAt(script, start) };
}

/** Where the comment ends whose text begins at `from`: comments nest in SQL. */
function endOfComment(script: string, from: number): number {
  const edge = /\/\*|\*\//g;
  edge.lastIndex = from;
  for (let depth = 1; depth > 0; ) {
    const match = edge.exec(script);
    if (match === null) return script.length;
    depth += match[0] === '/*' ? 1 : -1;
  }
  return edge.lastIndex;
}

function fillIn(
  token: string,
  { literal, identifier, plain }: Record<string, string | undefined>,
  variables: ReadonlyMap<string, string>,
): string {
  const value = variables.get(literal ?? identifier ?? plain ?? '');
  if (value === undefined) return token;
  if (literal !== undefined) return escapeLiteral(value);
  return identifier !== undefined ? escapeIdentifier(value) : value;
}

function splitWords(line: string, variables: ReadonlyMap<string, string>): string[] {
  const words = line.match(/'(?:[^']|'')*'|\S+/g) ?? [];
  return words.map((word) => {
    if (word.startsWith("'")) return word.slice(1, -1).replaceAll("''", "'");
    return word.replace(/:'?(\w+)'?/g, (whole, name: string) => variables.get(name) ?? whole);
  });
}

function lineAt(script: string, offset: number): number {
  return script.slice(0, offset).split('\n').length;
}

import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { MadrugadaError, messageOf } from '../errors.ts';
import { openClient } from '../postgres/connect.ts';
import { runScript, type ScriptOutput } from '../postgres/run-script.ts';
import { formatTable } from './output.ts';

const OPTIONS = {
  command: { type: 'string', short: 'c', multiple: true },
  file: { type: 'string', short: 'f', multiple: true },
  variable: { type: 'string', short: 'v', multiple: true },
  quiet: { type: 'boolean', short: 'q' },
  'no-align': { type: 'boolean', short: 'A' },
  'tuples-only': { type: 'boolean', short: 't' },
  'no-psqlrc': { type: 'boolean', short: 'X' },
} as const;

/** What remains of psql where none is installed: scripts and commands, not a prompt. 0, or a MadrugadaError at the first failing statement. */
export async function runSmallPsql(url: string, args: string[]): Promise<number> {
  const { command = [], file = [], variable = [], ...style } = parse(args);
  const variables = new Map(variable.map(splitAssignment));
  const scripts = command.map((sql) => ({ name: '-c', text: sql }));
  for (const name of file)
    scripts.push({ name, text: name === '-' ? await text(process.stdin) : await readScriptFile(name) });
  if (scripts.length === 0) scripts.push({ name: 'standard input', text: await readPipedInput() });

  const client = await openClient({ url, applicationName: 'madrugada psql', queryTimeoutMs: 0 });
  try {
    const output = printer(style.quiet === true, style['no-align'] === true, style['tuples-only'] === true);
    for (const script of scripts) if (!(await runScript(client, script, variables, output))) break;
  } finally {
    await client.end();
  }
  return 0;
}

function parse(args: string[]) {
  try {
    return parseArgs({ args, options: OPTIONS, strict: true, allowPositionals: false }).values;
  } catch (error) {
    throw new MadrugadaError(
      `${messageOf(error)}; psql is not installed here, and the small one knows -c, -f, -v, -q, -A, -t, -X`,
    );
  }
}

function splitAssignment(assignment: string): [string, string] {
  const equals = assignment.indexOf('=');
  return equals < 0 ? [assignment, ''] : [assignment.slice(0, equals), assignment.slice(equals + 1)];
}

async function readPipedInput(): Promise<string> {
  if (process.stdin.isTTY)
    throw new MadrugadaError(
      'psql is not installed here: give -c SQL or -f FILE, or pipe a script in (madrugada db url serves other clients)',
    );
  return text(process.stdin);
}

async function readScriptFile(name: string): Promise<string> {
  try {
    return await readFile(name, 'utf8');
  } catch (error) {
    throw new MadrugadaError(`${name} cannot be read: ${messageOf(error)}`, 2, { cause: error });
  }
}

function printer(quiet: boolean, unaligned: boolean, tuplesOnly: boolean): ScriptOutput {
  const print = (text: string) => process.stdout.write(`${text}\n`);
  return {
    line: (text) => quiet || print(text),
    rows: (columns, rows) => {
      const cells = rows.map((row) => row.map((value) => value ?? ''));
      if (unaligned) print([...(tuplesOnly ? [] : [columns]), ...cells].map((row) => row.join('|')).join('\n'));
      else if (tuplesOnly) print(formatTable(columns, cells).split('\n').slice(1).join('\n'));
      else print(`${formatTable(columns, cells)}\n(${rows.length} ${rows.length === 1 ? 'row' : 'rows'})\n`);
    },
  };
}

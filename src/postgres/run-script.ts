import { type ClientBase, type CustomTypesConfig, DatabaseError } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { readScript, type ScriptStep } from './sql-script.ts';

/** What a script says as it runs. */
export interface ScriptOutput {
  /** The rows of a statement, each value as Postgres prints it, null for NULL. */
  rows(columns: string[], rows: (string | null)[][]): void;
  /** A line of `\echo`, or the tag of a statement without rows. */
  line(text: string): void;
}

const AS_TEXT: CustomTypesConfig = { getTypeParser: () => (value: string) => value };

/**
 * Runs `script` statement by statement and stops at the first error, a MadrugadaError with the script's name and line. `\set`
 * changes `variables`. False if the script ended itself with `\quit`.
 */
export async function runScript(
  client: ClientBase,
  script: { name: string; text: string },
  variables: Map<string, string>,
  output: ScriptOutput,
): Promise<boolean> {
  for (const step of readScript(script.text, variables)) {
    if (step.kind === 'command') {
      if (step.name === 'q' || step.name === 'quit') return false;
      runCommand(step, script.name, variables, output);
    } else await runStatement(client, step, script.name, output);
  }
  return true;
}

function runCommand(
  { name, words, line }: ScriptStep & { kind: 'command' },
  script: string,
  variables: Map<string, string>,
  output: ScriptOutput,
): void {
  if (name === 'echo') output.line(words.join(' '));
  else if (name === 'set') variables.set(words[0] ?? '', words.slice(1).join(''));
  else throw new MadrugadaError(`${script}:${line}: \\${name} needs psql itself, which is not installed here`);
}

async function runStatement(
  client: ClientBase,
  { text, line }: ScriptStep & { kind: 'statement' },
  script: string,
  output: ScriptOutput,
): Promise<void> {
  try {
    const result = await client.query<(string | null)[]>({ text, rowMode: 'array', types: AS_TEXT });
    if (result.fields.length === 0) output.line(result.command);
    else
      output.rows(
        result.fields.map(({ name }) => name),
        result.rows,
      );
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    throw new MadrugadaError(`${script}:${line}: ${error.message}`, 2, { cause: error });
  }
}

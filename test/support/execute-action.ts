import type { ActionContext } from '../../src/action/define-action.ts';
import { fileAction } from '../../src/action/kinds/file.ts';
import { transferAction } from './transfer.ts';

/** Executes one action in a process that may be killed: `execute-action.ts KIND KEY ARGUMENTS [ROOT]`; prints what `execute` returned. */
const [kind, key = '', args = '', root = ''] = process.argv.slice(2);
const context: ActionContext = { key, signal: new AbortController().signal };

console.log(JSON.stringify(kind === 'file' ? await writeFile() : await transfer()));

async function transfer() {
  const action = transferAction();
  const given = JSON.parse(args);
  const precondition = await action.precondition(given, context);
  if (!precondition.holds) throw new Error(precondition.why);
  return action.execute(given, precondition.before, context);
}

async function writeFile() {
  const action = fileAction<{ path: string; content: string; replaces: string | null }>({
    root,
    path: ({ path }) => path,
    content: ({ content }) => content,
    replaces: ({ replaces }) => replaces,
  });
  const given = JSON.parse(args);
  const precondition = await action.precondition(given, context);
  if (!precondition.holds) throw new Error(precondition.why);
  return action.execute(given, precondition.before, context);
}

import type { ActionContext, ActionKind } from '../../src/action/define-action.ts';
import { writeAction } from './file-action.ts';
import { transferAction } from './transfer.ts';

/** Does one thing with one action in a process that may be killed: `execute-action.ts transfer|write execute|undo KEY ARGUMENTS BEFORE [ROOT]`. */
const [kind, what, key = '', args = '', before = '', root = ''] = process.argv.slice(2);
const context: ActionContext = { key, signal: new AbortController().signal };
const action = (kind === 'write' ? writeAction(root) : transferAction()) as ActionKind<unknown>;

if (what === 'execute')
  console.log(JSON.stringify(await action.execute(JSON.parse(args), JSON.parse(before), context)));
else if (action.rollback.kind === 'in-band')
  await action.rollback.undo(
    { args: JSON.parse(args), before: JSON.parse(before), effect: undefined, seen: undefined },
    context,
  );

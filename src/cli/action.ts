import { type Command, Option } from 'commander';
import type { ActionState } from '../action/action-row.ts';
import { decideAction, settleAction } from '../action/decide-action.ts';
import { type ListedAction, listActions, tendActions, waitsForPerson } from '../action/list-actions.ts';
import { type ShownAction, showAction } from '../action/show-action.ts';
import { parseKeepingNumbers } from '../batch/exact-json.ts';
import { findBatch } from '../batch/find-batch.ts';
import { actionScreen } from './action-screen.ts';
import { actionTable } from './action-table.ts';
import { actionNumber, stateWords } from './action-words.ts';
import { registerApprove } from './approve-action.ts';
import { type CommonFlags, printResult, snakeKeys } from './output.ts';
import { withClient } from './with-client.ts';

interface PersonFlags extends CommonFlags {
  by: string;
  reason: string;
}

const STATES = [
  ...['proposed', 'approved', 'rejected', 'expired', 'in-flight', 'committed'],
  ...['aborted', 'rolling-back', 'rolled-back', 'unknown', 'needs-person'],
];
const SETTLED = ['committed', 'aborted', 'rolled-back'];

const LIST_HELP = `
First those that need a person, then those that wait for approval, then the others.

Examples:
  madrugada action list 2026-11
  madrugada action list --state proposed --json`;

const SHOW_HELP = `
All that is needed in order to decide: what it is for, its exact arguments, what it would change, what it can touch, how it is undone, who
proposed it and from which calls, until when it can be approved, who has decided, and all that has happened to it so far.

Example:
  madrugada action show 12`;

const REJECT_HELP = `
Also what is approved may be rejected as long as it is not in flight. Its task is told, and goes on without it.

Example:
  madrugada action reject 12 --by ana --reason "that invoice is paid"`;

const SETTLE_HELP = `
An action is unknown when it cannot be told whether it took effect, and needs a person when its target is not as it should be. Look at the
target, put it right if need be, and say how it stands: it is in effect (committed), it took no effect (aborted), it has been undone
(rolled-back). Its task goes on by that.

Example:
  madrugada action settle 12 --as committed --by ana --reason "the bank shows the transfer"`;

/** `madrugada action`: what agents want to change outside, and what people say to it. */
export function register(program: Command): void {
  const action = program.command('action').description('what agents want to change outside: list, show, decide');
  action
    .command('list [batch]')
    .description('list actions, of one batch or of all')
    .addOption(new Option('--state <state>', 'only those in this state').choices(STATES))
    .addHelpText('after', LIST_HELP)
    .action(list);
  action
    .command('show <id>')
    .description('show all that is needed in order to decide on an action')
    .addHelpText('after', SHOW_HELP)
    .action(show);
  registerApprove(action);
  action
    .command('reject <id>')
    .description('reject a proposal')
    .requiredOption('--by <name>', 'who')
    .requiredOption('--reason <text>', 'why')
    .addHelpText('after', REJECT_HELP)
    .action(reject);
  action
    .command('settle <id>')
    .description('say how an action stands that is unknown or needs a person')
    .addOption(new Option('--as <state>', 'how it stands').choices(SETTLED).makeOptionMandatory())
    .requiredOption('--by <name>', 'who')
    .requiredOption('--reason <text>', 'how you know')
    .addHelpText('after', SETTLE_HELP)
    .action(settle);
}

async function list(name: string | undefined, flags: CommonFlags & { state?: string }): Promise<void> {
  await withClient('approver', async (client) => {
    await tendActions(client);
    const batchKey = name === undefined ? undefined : (await findBatch(client, name)).key;
    const state = flags.state?.replace('-', '_') as ActionState | undefined;
    const actions = await listActions(client, { batchKey, state });
    printResult(flags, { actions: actions.map(snakeKeys) }, describeList(actions));
  });
}

function describeList(actions: ListedAction[]): string {
  const [first] = actions;
  if (first === undefined) return 'no such action';
  const text = actionTable(actions, process.stdout.columns ?? Infinity);
  return waitsForPerson(first) ? `${text}\n\nnext: madrugada action show ${first.id}` : text;
}

async function show(idText: string, flags: CommonFlags): Promise<void> {
  const id = actionNumber(idText);
  await withClient('approver', async (client) => {
    await tendActions(client);
    const action = await showAction(client, id);
    printResult(flags, documentOf(action), actionScreen(action, process.stdout.columns ?? Infinity));
  });
}

function documentOf(action: ShownAction): object {
  const { argumentsJson, presentJson, effectJson, evidenceJson, decisions, history, ...rest } = action;
  const json = (text: string | null) => (text === null ? null : parseKeepingNumbers(text));
  return {
    ...snakeKeys(rest),
    arguments: json(argumentsJson),
    present: json(presentJson),
    effect: json(effectJson),
    evidence: json(evidenceJson),
    decisions: decisions.map(snakeKeys),
    history: history.map(snakeKeys),
  };
}

async function reject(idText: string, flags: PersonFlags): Promise<void> {
  const id = actionNumber(idText);
  await withClient('approver', async (client) => {
    await tendActions(client);
    const { digest } = await showAction(client, id);
    const { outcome } = await decideAction(client, { id, digest, verdict: 'reject' }, flags);
    const changed = outcome === 'rejected';
    printResult(flags, { action: id, outcome, changed }, `action ${id} is ${changed ? '' : 'already '}rejected`);
  });
}

async function settle(idText: string, flags: PersonFlags & { as: string }): Promise<void> {
  const id = actionNumber(idText);
  const state = flags.as.replace('-', '_') as 'committed' | 'aborted' | 'rolled_back';
  await withClient('approver', async (client) => {
    await tendActions(client);
    await settleAction(client, id, state, flags);
    const { batchKey } = await showAction(client, id);
    const text = `action ${id} is settled: ${stateWords(state)}; its task goes on: madrugada run ${batchKey}`;
    printResult(flags, { action: id, state }, text);
  });
}

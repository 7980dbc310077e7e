import type { Command } from 'commander';
import { type ListedAction, listActions, waitsForPerson } from '../action/list-actions.ts';
import { conversationOf, type TaskConversation } from '../agent/recursive/conversation.ts';
import { type ShownTask, showTask } from '../batch/show-task.ts';
import { actionTable } from './action-table.ts';
import { foldLines } from './fold-lines.ts';
import { type CommonFlags, formatTable, printResult, snakeKeys } from './output.ts';
import { conversationDocument, conversationLines } from './task-conversation.ts';
import { terminalText } from './terminal-text.ts';
import { withClient } from './with-client.ts';

const HELP = `
Every attempt with the calls it replayed and sent, and every dispatch with what became of it. Of a task of the agent "recursive" also its
whole conversation with the REPL, turn by turn: what the root model wrote, its sub-calls, and what it was told in return. What it wants to change
outside, or has, stands under its actions.

Example:
  madrugada task show 2026-11:215:v3
  madrugada task show 2026-11:215:v3 --bodies --json`;

/** `madrugada task`: one task. */
export function register(program: Command): void {
  const task = program.command('task').description('one task');
  task
    .command('show <task>')
    .description('show a task with its attempts and calls, live and replayed')
    .option('--bodies', 'with requests and responses, and nothing shortened')
    .addHelpText('after', HELP)
    .action(show);
}

/** The agent whose tasks are shown as a conversation. */
const CONVERSING = 'recursive';

async function show(key: string, flags: CommonFlags & { bodies?: boolean }): Promise<void> {
  const whole = flags.bodies === true;
  await withClient('auditor', async (client) => {
    const task = await showTask(client, key, (agent) => whole || agent === CONVERSING);
    const actions = await listActions(client, { taskKey: key });
    const conversation = task.agent === CONVERSING ? conversationOf(task) : undefined;
    const text = [
      terminalText(describe(task, actions, whole)),
      ...(conversation ? ['', foldedForTerminal(conversationLines(conversation, task, whole))] : []),
    ].join('\n');
    printResult(flags, documentOf(task, actions, conversation, whole), text);
  });
}

function documentOf(
  task: ShownTask,
  actions: ListedAction[],
  conversation: TaskConversation | undefined,
  whole: boolean,
): object {
  const { attempts, calls, steps, failure } = task;
  return {
    ...snakeKeys(task),
    failure: failure && snakeKeys(failure),
    attempts: attempts.map(snakeKeys),
    calls: calls.map(({ request, response, ...call }) => snakeKeys(whole ? { ...call, request, response } : call)),
    steps,
    actions: actions.map(snakeKeys),
    ...(conversation && { conversation: conversationDocument(conversation, whole) }),
  };
}

function describe(task: ShownTask, actions: ListedAction[], whole: boolean): string {
  const { key, state, slot, waitingFor, notBefore, failure, result, spentUsd } = task;
  const waiting = waitingFor && `waits for ${waitingFor}${notBefore ? ` until ${notBefore.toISOString()}` : ''}`;
  return [
    `task ${key}: ${[state, slot && `in slot ${slot}`, waiting].filter(Boolean).join(', ')}; US$ ${spentUsd}`,
    `input: ${JSON.stringify(task.input)}`,
    ...(result === null ? [] : [`result: ${JSON.stringify(result)}`]),
    ...(failure === null ? [] : [`failure (${failure.kind}): ${failure.message}`]),
    ...nextStep(task, actions),
    '',
    attemptTable(task),
    '',
    callTable(task),
    ...(actions.length === 0 ? [] : ['', actionTable(actions, process.stdout.columns ?? Infinity)]),
    ...(whole ? bodies(task) : []),
  ].join('\n');
}

/** A terminal would break long lines as well, but without their margin. */
function foldedForTerminal(lines: string[]): string {
  return foldLines(terminalText(lines.join('\n')), process.stdout.columns ?? Infinity);
}

/** What a person does next. */
function nextStep({ key, state, failure, waitingFor }: ShownTask, actions: ListedAction[]): string[] {
  if (waitingFor === 'approval')
    return actions.filter(waitsForPerson).map(({ id }) => `next: a person decides: madrugada action show ${id}`);
  if (waitingFor === 'settlement')
    return [
      'next: settle the call in doubt: madrugada doubt list names it and says how; to pay it again all the same:',
      `  madrugada retry ${key} --by WHO --reason TEXT --pay-again-from SEQ`,
    ];
  if (state !== 'failed') return [];
  const retry = `madrugada retry ${key} --by WHO --reason TEXT`;
  if (failure?.kind !== 'diverged') return [`next: mend the cause, then ${retry}`];
  const seq = failure.seq ?? 'SEQ';
  return [
    `next: restore the agent's earlier code, then ${retry}`,
    `  or, if what it asks now is right, have its calls paid again: ${retry} --pay-again-from ${seq}`,
  ];
}

function attemptTable({ attempts }: ShownTask): string {
  if (attempts.length === 0) return 'no attempt yet';
  return formatTable(
    ['attempt', 'slot', 'started', 'ending', 'replayed', 'sent', 'message'],
    attempts.map((a) => [
      ...[a.number, a.slot, a.startedAt.toISOString(), a.ending ?? 'running'],
      ...[a.replayed ?? '', a.sent, a.error ?? ''],
    ]),
  );
}

function callTable({ calls }: ShownTask): string {
  if (calls.length === 0) return 'no call yet';
  return formatTable(
    ['call', 'dispatch', 'attempt', 'model', 'outcome', 'status', 'US$', 'sent', 'message'],
    calls.map((c) => [
      ...[
        c.seq,
        c.dispatch,
        c.attempt,
        c.askedModel === c.model ? (c.model ?? '') : `${c.model} in the stead of ${c.askedModel}`,
        [c.kind, c.answers && 'answers', c.setAside && 'set aside'].filter(Boolean).join(', '),
        c.status ?? '',
      ],
      ...[c.costUsd ?? '', c.sentAt.toISOString(), c.error ?? ''],
    ]),
  );
}

function bodies({ calls }: ShownTask): string[] {
  return calls.flatMap(({ seq, dispatch, request, response }) => [
    ...['', `call ${seq}, dispatch ${dispatch}`, `> ${request ?? ''}`, `< ${response ?? ''}`],
  ]);
}

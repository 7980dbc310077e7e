import type { Command } from 'commander';
import { type ShownTask, showTask } from '../batch/show-task.ts';
import { type CommonFlags, formatTable, printResult } from './output.ts';
import { withClient } from './with-client.ts';

const HELP = `
Every attempt with the calls it replayed and sent, and every dispatch with what became of it.

Example:
  madrugada task show 2026-11:215:v3
  madrugada task show 2026-11:215:v3 --bodies --json`;

/** `madrugada task`: one task. */
export function register(program: Command): void {
  const task = program.command('task').description('one task');
  task
    .command('show <task>')
    .description('show a task with its attempts and calls, live and replayed')
    .option('--bodies', 'with requests and responses')
    .addHelpText('after', HELP)
    .action(show);
}

async function show(key: string, flags: CommonFlags & { bodies?: boolean }): Promise<void> {
  await withClient('auditor', async (client) => {
    const task = await showTask(client, key, flags.bodies === true);
    printResult(flags, task, describe(task));
  });
}

function describe(task: ShownTask): string {
  const { key, state, slot, waitingFor, notBefore, failure, result, spentUsd } = task;
  const waiting = waitingFor && `waits for ${waitingFor}${notBefore ? ` until ${notBefore.toISOString()}` : ''}`;
  return [
    `task ${key}: ${[state, slot && `in slot ${slot}`, waiting].filter(Boolean).join(', ')}; US$ ${spentUsd}`,
    `input: ${JSON.stringify(task.input)}`,
    ...(result === null ? [] : [`result: ${JSON.stringify(result)}`]),
    ...(failure === null ? [] : [`failure (${failure.kind}): ${failure.message}`]),
    ...nextStep(task),
    '',
    attemptTable(task),
    '',
    callTable(task),
    ...bodies(task),
  ].join('\n');
}

/** What a person does next. */
function nextStep({ key, state, failure, waitingFor }: ShownTask): string[] {
  if (waitingFor === 'settlement')
    return [
      'next: look the call in doubt up on the provider’s bill; to pay it again all the same:',
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
      ...[c.seq, c.dispatch, c.attempt, c.model ?? '', c.kind + (c.answers ? ', answers' : ''), c.status ?? ''],
      ...[c.costUsd ?? '', c.sentAt.toISOString(), c.error ?? ''],
    ]),
  );
}

function bodies({ calls }: ShownTask): string[] {
  return calls.flatMap(({ seq, dispatch, request, response }) =>
    request === undefined ? [] : ['', `call ${seq}, dispatch ${dispatch}`, `> ${request}`, `< ${response ?? ''}`],
  );
}

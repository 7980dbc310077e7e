import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import type { Client } from 'pg';
import { type Alert, openAlerts } from '../batch/alerts.ts';
import { allBatches, type Batch, findBatch } from '../batch/find-batch.ts';
import { batchFigures } from '../batch/show-batch.ts';
import { busySlots, failedTasks, recentRefusals, stopInForce, waitingTasks } from '../batch/status.ts';
import { exposureSentence, readExposure } from '../bill/exposure.ts';
import { MadrugadaError } from '../errors.ts';
import { type CommonFlags, formatTable, printResult, snakeKeys } from './output.ts';
import { oneLine } from './terminal-text.ts';
import { waitingActionLines, waitingActions } from './waiting-actions.ts';
import { withClient } from './with-client.ts';

/** What a person brings. */
const WITHOUT_TIME: Record<string, string> = { approval: ', or for a person to look at an action' };
const WATCH_MS = 2_000;
const CLEAR_SCREEN = '\x1b[2J\x1b[H';

const HELP = `
What runs, waits and failed; without a batch, of every batch that is open or stopped.

Example:
  madrugada status 2026-11 --watch`;

/** `madrugada status`: how the night is going. */
export function register(program: Command): void {
  program
    .command('status [batch]')
    .description('how the night is going')
    .option('--watch', 'show it again every two seconds')
    .addHelpText('after', HELP)
    .action(status);
}

async function status(name: string | undefined, flags: CommonFlags & { watch?: boolean }): Promise<void> {
  if (flags.watch && flags.json)
    throw new MadrugadaError(
      '--watch shows a screen again and again; with --json call madrugada status once for each look',
    );
  await withClient('auditor', async (client) => {
    do {
      const batches = name === undefined ? await unfinished(client) : [await findBatch(client, name)];
      const stop = await stopInForce(client);
      const alerts = await openAlerts(client);
      const reports = [];
      for (const batch of batches) reports.push(await report(client, batch));
      const text = [
        ...(stop === undefined ? [] : [`EVERYTHING IS STOPPED: ${stop}`]),
        ...(alerts.length === 0 ? [] : [alerts.map(describeAlert).join('\n')]),
        ...(reports.length === 0 ? ['no batch is open or stopped'] : reports.map(describe)),
      ].join('\n\n');
      const document = {
        stopped: stop ?? null,
        alerts: alerts.map(snakeKeys),
        batches: reports.map(documentOf),
      };
      printResult(flags, document, (flags.watch ? CLEAR_SCREEN : '') + text);
      if (flags.watch) await delay(WATCH_MS);
    } while (flags.watch);
  });
}

async function unfinished(client: Client): Promise<Batch[]> {
  return (await allBatches(client)).filter(({ state }) => state === 'open' || state === 'stopped');
}

type Report = Awaited<ReturnType<typeof report>>;

async function report(client: Client, batch: Batch) {
  return {
    batch,
    figures: await batchFigures(client, batch.key),
    slots: await busySlots(client, batch.key),
    waiting: await waitingTasks(client, batch.key),
    actions: await waitingActions(client, batch.key),
    failed: await failedTasks(client, batch.key),
    refusals: await recentRefusals(client, batch.key),
    exposure: await readExposure(client, batch.key),
  };
}

function documentOf({ batch, figures, slots, waiting, actions, failed, refusals, exposure }: Report) {
  return {
    batch: batch.key,
    state: batch.state,
    figures: snakeKeys(figures),
    slots: slots.map(snakeKeys),
    waiting: waiting.map(snakeKeys),
    actions: actions.map(snakeKeys),
    failed,
    refusals,
    exposure: snakeKeys(exposure),
  };
}

function describe({ batch, figures, slots, waiting, actions, failed, refusals, exposure }: Report): string {
  const { completed, running, pending, failed: failures } = figures.tasks;
  return [
    `batch ${batch.key}, ${batch.state}${batch.stopReason === null ? '' : `: ${batch.stopReason}`}`,
    `${completed} of ${batch.tasks} tasks completed, ${failures} failed, ${running} running, ${pending} pending; ` +
      `${figures.calls} calls, US$ ${figures.spentUsd}, ${figures.inDoubt} in doubt`,
    exposureSentence(exposure),
    ...(slots.length === 0 ? [] : ['', slotTable(slots)]),
    ...waiting.map(
      ({ waitingFor, tasks, until }) =>
        `${tasks} tasks wait for ${waitingFor}${until ? ` until ${until.toISOString()}` : (WITHOUT_TIME[waitingFor] ?? ', which time alone does not bring')}`,
    ),
    ...waitingActionLines(actions, batch.key),
    ...refusals.map(
      ({ status, error, dispatches }) => `${dispatches} refusals in ten minutes: ${status ?? ''} ${error ?? ''}`,
    ),
    ...failed.map(({ key, message }) => `failed: ${key}: ${message}`),
    ...(failed.length > 0 ? [`madrugada task show ${failed[0]?.key} says what to do next`] : []),
  ].join('\n');
}

function describeAlert({ id, raisedAt, kind, batchKey, message }: Alert): string {
  const of = batchKey === null ? '' : ` of batch ${batchKey}`;
  return `ALERT ${id}, ${raisedAt.toISOString()}, ${kind}${of}: ${oneLine(message)}`;
}

function slotTable(slots: Report['slots']): string {
  return formatTable(
    ['slot', 'task', 'attempt', 'last call', 'since', 'heartbeat'],
    slots.map((slot) => [
      ...[slot.slot, slot.task, slot.attempt, slot.lastCall ?? 'replaying'],
      ...[slot.since.toISOString(), slot.heartbeatAt?.toISOString() ?? ''],
    ]),
  );
}

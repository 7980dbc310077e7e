import type { Command } from 'commander';
import { alertChannels, channelNames } from '../batch/alert-channels.ts';
import { type Alert, acknowledgeAlert, allAlerts, openAlerts } from '../batch/alerts.ts';
import { deliverAlerts } from '../batch/deliver-alerts.ts';
import { MadrugadaError } from '../errors.ts';
import { type CommonFlags, formatTable, printResult, snakeKeys } from './output.ts';
import { oneLine } from './terminal-text.ts';
import { withClient } from './with-client.ts';

const LIST_HELP = `
What the program has stopped by itself, and why. The same alert is raised once until a person has acknowledged it.

Examples:
  madrugada alert list
  madrugada alert list --all --json`;

const DELIVER_HELP = `
MADRUGADA_ALERT_WEBHOOK is a URL that is sent each alert as JSON; MADRUGADA_ALERT_COMMAND a shell command that reads it from its standard
input. MADRUGADA_ALERT_SMTP (smtp://USER:PASSWORD@HOST:PORT, or smtps), MADRUGADA_ALERT_MAIL_FROM and MADRUGADA_ALERT_MAIL_TO send it by mail.
Each delivery that fails is tried again after 30 s, then after twice as long, at most an hour.

Example:
  madrugada alert deliver`;

const ACK_HELP = `
Acknowledging an alert opens nothing again: madrugada batch resume does, and acknowledges the batch's alerts itself.

Example:
  madrugada alert ack 7 --by ana --note "key renewed"`;

/** `madrugada alert`: what a person should know of. */
export function register(program: Command): void {
  const alert = program.command('alert').description('list and acknowledge alerts');
  alert
    .command('list')
    .description('list the alerts that nobody has acknowledged')
    .option('--all', 'the acknowledged ones, too')
    .addHelpText('after', LIST_HELP)
    .action(list);
  alert
    .command('deliver')
    .description('deliver the alerts that are due; workers do it while they run')
    .addHelpText('after', DELIVER_HELP)
    .action(deliver);
  alert
    .command('ack <id>')
    .description('acknowledge an alert')
    .requiredOption('--by <name>', 'who')
    .option('--note <text>', 'what was done')
    .addHelpText('after', ACK_HELP)
    .action(acknowledge);
}

async function deliver(flags: CommonFlags): Promise<void> {
  const channels = alertChannels(process.env);
  if (channelNames(channels).length === 0)
    throw new MadrugadaError(
      'nowhere to deliver alerts to: set MADRUGADA_ALERT_WEBHOOK, MADRUGADA_ALERT_COMMAND or MADRUGADA_ALERT_SMTP',
    );
  await withClient('operator', async (client) => {
    const failures: string[] = [];
    const delivered = await deliverAlerts(client, channels, ({ alertId, channel, error }) =>
      failures.push(`alert ${alertId} did not get through by ${channel}: ${error}; it is tried again later`),
    );
    printResult(flags, { delivered, failures }, [`${delivered} deliveries made`, ...failures].join('\n'));
    if (failures.length > 0) process.exitCode = 1;
  });
}

async function list(flags: CommonFlags & { all?: boolean }): Promise<void> {
  await withClient('auditor', async (client) => {
    const alerts = flags.all === true ? await allAlerts(client) : await openAlerts(client);
    printResult(flags, alerts.map(snakeKeys), alerts.length === 0 ? 'no alert is open' : tableOf(alerts));
  });
}

function tableOf(alerts: Alert[]): string {
  return formatTable(
    ['id', 'raised', 'kind', 'batch', 'acknowledged', 'message'],
    alerts.map(({ id, raisedAt, kind, batchKey, acknowledgedBy, message }) => [
      ...[id, raisedAt.toISOString(), kind, batchKey ?? ''],
      ...[acknowledgedBy === null ? '' : `by ${acknowledgedBy}`, oneLine(message)],
    ]),
  );
}

async function acknowledge(idText: string, flags: CommonFlags & { by: string; note?: string }): Promise<void> {
  if (!/^[1-9]\d{0,15}$/.test(idText))
    throw new MadrugadaError(`"${idText}" is no alert: give the number that madrugada alert list shows`);
  const id = Number(idText);
  await withClient('operator', async (client) => {
    const changed = await acknowledgeAlert(client, id, flags.by, flags.note);
    printResult(flags, { alert: id, changed }, `alert ${id} is ${changed ? '' : 'already '}acknowledged`);
  });
}

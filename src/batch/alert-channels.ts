import { spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { MadrugadaError } from '../errors.ts';
import { type AlertDocument, type MailChannel, mailChannel, sendMail } from './mail-alert.ts';

/** Where alerts go, beside the database. All may hold secrets: none is ever logged. */
export interface AlertChannels {
  /** A URL that is sent each alert by POST. */
  readonly webhook: string | undefined;
  /** A shell command that gets each alert on its standard input. */
  readonly command: string | undefined;
  /** A mail server, and the addresses that are sent each alert. */
  readonly mail: MailChannel | undefined;
}

/** One way to one reader, as the database keeps it: each address is a channel of its own, tried until its own mail got through. */
export type AlertChannel = 'webhook' | 'command' | `mail:${string}`;

/** A delivery that takes longer has failed. Shorter than the shortest back-off, or two might be at it. */
const DELIVERY_MS = 10_000;
const TOO_LATE = `no answer within ${DELIVERY_MS / 1000} s`;
/** Not for a command that only tells somebody something. */
const WITHHELD = [
  'ANTHROPIC_API_KEY',
  'DATABASE_URL',
  'MADRUGADA_ALERT_WEBHOOK',
  'MADRUGADA_ALERT_COMMAND',
  'MADRUGADA_ALERT_SMTP',
];

/** Reads `MADRUGADA_ALERT_WEBHOOK`, `MADRUGADA_ALERT_COMMAND` and what mailChannel reads. Throws a MadrugadaError that does not repeat them. */
export function alertChannels(environment: NodeJS.ProcessEnv): AlertChannels {
  const webhook = environment.MADRUGADA_ALERT_WEBHOOK || undefined;
  if (webhook !== undefined && !/^https?:$/.test(URL.parse(webhook)?.protocol ?? ''))
    throw new MadrugadaError('MADRUGADA_ALERT_WEBHOOK must be a URL that begins with https:// or http://');
  return { webhook, command: environment.MADRUGADA_ALERT_COMMAND || undefined, mail: mailChannel(environment) };
}

/** The channels that are set up; empty: alerts reach nobody who does not look. */
export function channelNames({ webhook, command, mail }: AlertChannels): AlertChannel[] {
  return [
    ...(webhook === undefined ? [] : ['webhook' as const]),
    ...(command === undefined ? [] : ['command' as const]),
    ...(mail?.to ?? []).map((address) => `mail:${address}` as const),
  ];
}

/** Delivers one alert. Resolves to what went wrong, undefined when it got through; never rejects. */
export async function deliverBy(
  { webhook, command, mail }: AlertChannels,
  channel: AlertChannel,
  alert: AlertDocument,
): Promise<string | undefined> {
  if (channel === 'webhook' && webhook !== undefined) return await post(webhook, JSON.stringify(alert));
  if (channel === 'command' && command !== undefined) return await runCommand(command, JSON.stringify(alert));
  if (channel.startsWith('mail:') && mail !== undefined)
    return await inTime(sendMail(mail, channel.slice('mail:'.length), alert));
  return 'it is not set up here';
}

/** Each step of a mail is bounded, but not their sum. What is accepted after that is sent again, as the same mail. */
async function inTime(sending: Promise<string | undefined>): Promise<string | undefined> {
  const abort = new AbortController();
  const late = delay(DELIVERY_MS, TOO_LATE, { signal: abort.signal }).catch(() => undefined);
  try {
    return await Promise.race([sending, late]);
  } finally {
    abort.abort();
  }
}

async function post(url: string, json: string): Promise<string | undefined> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: json,
      signal: AbortSignal.timeout(DELIVERY_MS),
    });
    await response.body?.cancel();
    return response.ok ? undefined : `HTTP ${response.status}`;
  } catch (error) {
    return withoutUrl(error);
  }
}

/** The message of a failed fetch may repeat the URL; its code does not. */
function withoutUrl(error: unknown): string {
  if (!(error instanceof Error)) return 'no connection';
  const { cause } = error;
  if (cause instanceof Error && 'code' in cause && typeof cause.code === 'string') return cause.code;
  return error.name === 'TimeoutError' ? TOO_LATE : 'no connection';
}

function runCommand(command: string, json: string): Promise<string | undefined> {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !WITHHELD.includes(name)));
  return new Promise((resolve) => {
    const child = spawn('sh', ['-c', command], {
      env,
      stdio: ['pipe', 'ignore', 'ignore'],
      timeout: DELIVERY_MS,
      killSignal: 'SIGKILL',
    });
    child.once('error', () => resolve('it cannot be started'));
    child.once('exit', (code, signal) => {
      if (code === 0) resolve(undefined);
      else resolve(signal ? `ended by ${signal}` : `exit ${code}`);
    });
    child.stdin.on('error', () => undefined); // one that does not read what it is told may still have done its part
    child.stdin.end(json);
  });
}

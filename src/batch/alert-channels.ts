import { spawn } from 'node:child_process';
import { MadrugadaError } from '../errors.ts';

/** Where alerts go, beside the database. Both may hold secrets: neither is ever logged. */
export interface AlertChannels {
  /** A URL that is sent each alert by POST. */
  readonly webhook: string | undefined;
  /** A shell command that gets each alert on its standard input. */
  readonly command: string | undefined;
}

export type AlertChannel = keyof AlertChannels;

/** A delivery that takes longer has failed. Shorter than the shortest back-off, or two might be at it. */
const DELIVERY_MS = 10_000;
/** Not for a command that only tells somebody something. */
const WITHHELD = ['ANTHROPIC_API_KEY', 'DATABASE_URL', 'MADRUGADA_ALERT_WEBHOOK', 'MADRUGADA_ALERT_COMMAND'];

/** Reads `MADRUGADA_ALERT_WEBHOOK` and `MADRUGADA_ALERT_COMMAND`. Throws a MadrugadaError that does not repeat them. */
export function alertChannels(environment: NodeJS.ProcessEnv): AlertChannels {
  const webhook = environment.MADRUGADA_ALERT_WEBHOOK || undefined;
  if (webhook !== undefined && !/^https?:$/.test(URL.parse(webhook)?.protocol ?? ''))
    throw new MadrugadaError('MADRUGADA_ALERT_WEBHOOK must be a URL that begins with https:// or http://');
  return { webhook, command: environment.MADRUGADA_ALERT_COMMAND || undefined };
}

/** Delivers one JSON document. Resolves to what went wrong, undefined when it got through; never rejects. */
export function deliverBy(channels: AlertChannels, channel: AlertChannel, json: string): Promise<string | undefined> {
  const target = channels[channel];
  if (target === undefined) return Promise.resolve('it is not set up here');
  return channel === 'webhook' ? post(target, json) : runCommand(target, json);
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
  return error.name === 'TimeoutError' ? `no answer within ${DELIVERY_MS / 1000} s` : 'no connection';
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

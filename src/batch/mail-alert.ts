import { createHash } from 'node:crypto';
import { MadrugadaError } from '../errors.ts';

/** A mail server and who hears from it. It holds a password: never log it. */
export interface MailChannel {
  readonly host: string;
  readonly port: number;
  /** TLS from the first byte (`smtps`); otherwise STARTTLS where the server has it, and always before a password leaves this machine. */
  readonly secure: boolean;
  readonly login: { readonly user: string; readonly pass: string } | undefined;
  readonly from: string;
  /** Each is sent a mail of its own. */
  readonly to: readonly string[];
}

/** An alert as the database hands it out for delivery. */
export interface AlertDocument {
  readonly id: number;
  readonly raised_at: string;
  readonly kind: string;
  readonly batch: string | null;
  readonly task_id: number | null;
  readonly message: string;
}

/** Each step of a conversation; the whole is bounded by whoever waits for it. */
const STEP_MS = 5_000;
const SUBMISSION = 587;
const SUBMISSION_TLS = 465;
const ADDRESS = /^[^\s@<>,;:"]+@[^\s@<>,;:"]+$/;

/**
 * Reads `MADRUGADA_ALERT_SMTP` (smtp://USER:PASSWORD@HOST:PORT, or smtps), `MADRUGADA_ALERT_MAIL_FROM` and `MADRUGADA_ALERT_MAIL_TO` (addresses,
 * separated by commas). Undefined when none is set. Throws a MadrugadaError, which never repeats the URL, when they do not make a whole.
 */
export function mailChannel(environment: NodeJS.ProcessEnv): MailChannel | undefined {
  const { MADRUGADA_ALERT_SMTP: url, MADRUGADA_ALERT_MAIL_FROM: from, MADRUGADA_ALERT_MAIL_TO: to } = environment;
  if (!url && !from && !to) return undefined;
  if (!url || !from || !to)
    throw new MadrugadaError(
      'alerts by mail need MADRUGADA_ALERT_SMTP, MADRUGADA_ALERT_MAIL_FROM and MADRUGADA_ALERT_MAIL_TO: set all three, or none',
    );
  const recipients = to.split(',').map((address) => address.trim());
  // not repeated: somebody may have put the URL there
  for (const [name, address] of [
    ['MADRUGADA_ALERT_MAIL_FROM', from.trim()] as const,
    ...recipients.map((address) => ['MADRUGADA_ALERT_MAIL_TO', address] as const),
  ])
    if (!ADDRESS.test(address)) throw new MadrugadaError(`${name} must be an address such as ana@example.org`);
  return { ...readServer(url), from: from.trim(), to: [...new Set(recipients)] };
}

function readServer(text: string): Pick<MailChannel, 'host' | 'port' | 'secure' | 'login'> {
  const url = URL.parse(text);
  try {
    if (url !== null && /^smtps?:$/.test(url.protocol) && url.hostname !== '') {
      const secure = url.protocol === 'smtps:';
      return {
        host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
        port: url.port === '' ? (secure ? SUBMISSION_TLS : SUBMISSION) : Number(url.port),
        secure,
        login:
          url.username === ''
            ? undefined
            : { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) },
      };
    }
  } catch {
    // a stray % in name or password
  }
  throw new MadrugadaError(
    'MADRUGADA_ALERT_SMTP must be smtp://USER:PASSWORD@HOST:PORT or smtps://…; what is special in a URL stands in name and password as %XX',
  );
}

/**
 * Sends one alert to one address. Resolves to what went wrong, undefined when the server took it; never rejects. Neither the password nor the
 * server's words, which may repeat it, are in what it says.
 */
export async function sendMail(channel: MailChannel, to: string, alert: AlertDocument): Promise<string | undefined> {
  const { createTransport } = await import('nodemailer');
  const { host, port, secure, login, from } = channel;
  const transport = createTransport({
    ...{ host, port, secure },
    ...(login && { auth: login }),
    // a password leaves this machine under TLS only; a mail server on this machine has rarely a certificate for localhost
    ...(isLoopback(host) ? { ignoreTLS: true } : { requireTLS: login !== undefined }),
    ...{ dnsTimeout: STEP_MS, connectionTimeout: STEP_MS, greetingTimeout: STEP_MS, socketTimeout: STEP_MS },
    ...{ disableFileAccess: true, disableUrlAccess: true },
  });
  try {
    await transport.sendMail({ from, to, ...compose(alert, from) });
    return undefined;
  } catch (error) {
    return describe(error);
  } finally {
    transport.close();
  }
}

/** The same alert makes the same mail at every try, by its Message-ID too: one that comes twice is known for one. */
function compose(alert: AlertDocument, from: string) {
  const { id, kind, batch, message } = alert;
  const raisedAt = new Date(alert.raised_at);
  // The number alone is not enough: another database counts its alerts from 1 as well.
  const digest = createHash('sha256').update(JSON.stringify([id, raisedAt.getTime(), kind, batch, message]));
  const next = [
    ...(batch === null ? ['madrugada status'] : [`madrugada status ${batch}`]),
    `madrugada alert ack ${id} --by WHO --note TEXT`,
  ];
  return {
    messageId: `<madrugada-alert-${id}.${digest.digest('hex').slice(0, 24)}@${from.slice(from.indexOf('@') + 1)}>`,
    date: raisedAt,
    subject: `madrugada: alert ${id}, ${kind}${batch === null ? '' : `, batch ${batch}`}`,
    text: [message, '', `Raised ${raisedAt.toISOString()}.`, '', 'Next:', ...next.map((line) => `  ${line}`), ''].join(
      '\n',
    ),
    headers: { 'Auto-Submitted': 'auto-generated', 'X-Madrugada-Alert': String(id) },
  };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return 'no mail server';
  const { responseCode, code, response } = error as Error & {
    responseCode?: unknown;
    code?: unknown;
    response?: unknown;
  };
  if (typeof responseCode === 'number') {
    const [enhanced] = /(?<=^\d{3}[ -])[245]\.\d{1,3}\.\d{1,3}\b/.exec(String(response ?? '')) ?? [];
    if (code === 'ETLS') return 'the mail server and we did not agree on TLS';
    const what = code === 'EAUTH' ? 'refused user or password' : 'refused the mail';
    return `the mail server ${what}: ${[responseCode, enhanced].filter(Boolean).join(' ')}`;
  }
  const [, system] = /^(?:connect|getaddrinfo|read|write) (E[A-Z]+)/.exec(error.message) ?? [];
  return `the mail server: ${system ?? (typeof code === 'string' ? code : 'no connection')}`;
}

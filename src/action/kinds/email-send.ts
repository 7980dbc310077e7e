import { Readable } from 'node:stream';
import { createTransport } from 'nodemailer';
import type { SMTPTransportOptions } from 'nodemailer/lib/smtp-transport';
import { messageOf } from '../../errors.ts';
import { throwIfOver } from '../deadline.ts';
import { NoEffect } from '../define-action.ts';
import { type CheckedMessage, recipientsOf } from './email-message.ts';
import type { Secrets } from './secrets.ts';

/** How to reach the SMTP server and log in there: nodemailer's options of one connection. */
export type SmtpOptions = SMTPTransportOptions;

/** What the server said of a message it took. It has queued it; nobody has read it. */
export interface QueueReply {
  messageId: string;
  /** The id the server gave it instead, where it says so. */
  serverMessageId: string | undefined;
  response: string;
  accepted: string[];
  rejected: { recipient: string; response: string }[];
}

/** Which message it is, and to whom it goes. */
export interface Envelope {
  messageId: string;
  /** The message it answers to, for a correction. */
  inReplyTo?: string[];
  /** Default: everybody the message names. */
  recipients?: string[];
}

/**
 * Sends one message over one connection, once. Throws `NoEffect` where its text never went out, or the server refused it for good; any other
 * error leaves in question whether it will be delivered.
 */
export async function sendMessage(
  smtp: SmtpOptions,
  message: CheckedMessage,
  { messageId, inReplyTo = [], recipients = recipientsOf(message) }: Envelope,
  { signal, secrets }: { signal: AbortSignal; secrets: Secrets },
): Promise<QueueReply> {
  rememberSecrets(smtp, secrets);
  let isTextOut = false;
  const transport = createTransport(safely(smtp));
  transport.on('error', () => undefined); // each is reported by sendMail as well
  transport.use('stream', ({ message: mime }, done) => {
    const create = mime.createReadStream.bind(mime);
    // read from only once the server has agreed to take the text ("354")
    mime.createReadStream = (options) =>
      Readable.from(
        (async function* () {
          isTextOut = true;
          yield* create(options);
        })(),
        { objectMode: false },
      );
    done();
  });
  try {
    throwIfOver(signal);
    const info = await transport.sendMail({
      ...message,
      messageId,
      inReplyTo: inReplyTo[0],
      references: inReplyTo,
      envelope: { from: message.from.address, to: recipients },
      disableFileAccess: true,
      disableUrlAccess: true,
      signal,
    });
    const rejected = info.rejectedErrors ?? [];
    if (info.accepted.length === 0) throw Object.assign(new Error('no recipient was accepted'), { all: rejected });
    return {
      messageId,
      serverMessageId: info.serverMessageId,
      response: info.response,
      accepted: info.accepted.map(String),
      rejected: rejected.map(({ recipient, response, message: words }) => ({
        recipient: recipient ?? '',
        response: response ?? words,
      })),
    };
  } catch (error) {
    const words = `message ${messageId}: ${messageOf(error)}`;
    if (!isTextOut) throw new NoEffect(`${words}; the text of it was not sent`);
    if (isRefusedForGood(error)) throw new NoEffect(`${words}; the server has refused it`);
    throw new Error(`${words}; it may be delivered all the same`);
  } finally {
    transport.close();
  }
}

/**
 * The server's own, whole answer to the text was "5yz". Not "4yz": behind a relay or a content filter that gave up waiting, the message may
 * have gone through. Nor "503": the server has lost count of the commands.
 */
function isRefusedForGood(error: unknown): boolean {
  const { code, command, responseCode, all } = error as {
    code?: string;
    command?: string;
    responseCode?: number;
    all?: { responseCode?: number }[];
  };
  const isFinal = (reply: number | undefined) => reply !== undefined && reply >= 500 && reply <= 599 && reply !== 503;
  if (all) return all.length > 0 && all.every((one) => isFinal(one.responseCode));
  return code === 'EMESSAGE' && command === 'DATA' && isFinal(responseCode);
}

/** Nothing is logged, no connection is shared, and a password does not travel in the clear unless that was asked for. */
function safely(smtp: SmtpOptions): SmtpOptions {
  const needsTls = smtp.auth !== undefined && !smtp.secure && !smtp.ignoreTLS;
  return {
    ...smtp,
    requireTLS: smtp.requireTLS ?? needsTls,
    pool: false,
    logger: false,
    debug: false,
    transactionLog: false,
  };
}

const SECRET_OPTION = /pass|token|secret|key|pfx/i;

/** Every text in the options whose name says that it is a secret, and what a URL carries. */
function rememberSecrets(options: object, secrets: Secrets): void {
  for (const [name, value] of Object.entries(options)) {
    if (typeof value === 'string') {
      if (SECRET_OPTION.test(name)) secrets.add(value);
      if (URL.canParse(value)) secrets.addFromUrl(new URL(value));
    } else if (value !== null && typeof value === 'object' && !(value instanceof Uint8Array)) {
      const { user, pass } = value as { user?: unknown; pass?: unknown };
      if (typeof user === 'string' && typeof pass === 'string') secrets.add(`\0${user}\0${pass}`);
      if (Object.getPrototypeOf(value) === Object.prototype) rememberSecrets(value, secrets);
    }
  }
}

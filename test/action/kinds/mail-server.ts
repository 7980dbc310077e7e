import { EventEmitter, once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';
import { onTestFinished } from 'vitest';

/** What the text of the next message meets; `hold`: no answer, and the message is kept; `cut`: kept too, and the connection is broken. */
export type DataFault = 'hold' | 'cut' | { refuse: number };

/** A message that the server keeps. */
export interface KeptMessage {
  raw: string;
  from: string;
  recipients: string[];
  user: string | undefined;
}

export const ACCOUNT = { user: 'night', pass: 'p4ss-w0rd-of-the-night' };

/** An SMTP server with an account and a mailbox: whatever it has taken is in `kept`. */
export class MailServer {
  readonly kept: KeptMessage[] = [];
  readonly dataFaults: DataFault[] = [];
  /** Reply codes by recipient. */
  readonly refused = new Map<string, number>();
  /** Breaks the connection at the next MAIL or RCPT. */
  cutAt: 'MAIL' | 'RCPT' | undefined;
  /** Emits `kept` for each message, before it is answered, and `RCPT`. */
  readonly events = new EventEmitter();
  port = 0;
  readonly #sockets = new Set<Socket>();

  static async start(options: { pipelining?: boolean; tls?: boolean } = {}): Promise<MailServer> {
    const mail = new MailServer();
    const server = new SMTPServer({
      authOptional: true,
      hidePIPELINING: options.pipelining === false,
      disabledCommands: options.tls === false ? ['STARTTLS'] : [],
      logger: false, // nor the warning about the certificate, which everybody has
      allowInsecureAuth: options.tls === false,
      onAuth({ username, password }, _session, callback) {
        if (username === ACCOUNT.user && password === ACCOUNT.pass) return callback(null, { user: username });
        callback(Object.assign(new Error(`Invalid credentials ${username} ${password}`), { responseCode: 535 }));
      },
      onMailFrom(_address, _session, callback) {
        if (mail.cutAt === 'MAIL') return mail.#cut();
        callback();
      },
      onRcptTo({ address }, _session, callback) {
        mail.events.emit('RCPT');
        if (mail.cutAt === 'RCPT') return mail.#cut();
        const code = mail.refused.get(address);
        callback(code === undefined ? null : Object.assign(new Error(`no mailbox ${address}`), { responseCode: code }));
      },
      async onData(stream, session, callback) {
        const raw = (await buffer(stream)).toString();
        const fault = mail.dataFaults.shift();
        if (typeof fault === 'object')
          return callback(Object.assign(new Error('refused for its content'), { responseCode: fault.refuse }));
        const { mailFrom, rcptTo } = session.envelope;
        mail.kept.push({
          raw,
          from: mailFrom === false ? '' : mailFrom.address,
          recipients: rcptTo.map(({ address }) => address),
          user: typeof session.user === 'string' ? session.user : undefined,
        });
        mail.events.emit('kept');
        if (fault === 'cut') return mail.#cut();
        if (fault !== 'hold') callback(null, `queued as ${mail.kept.length}`);
      },
    });
    server.on('error', () => undefined); // connections that the tests cut
    server.server.on('connection', (socket: Socket) => {
      mail.#sockets.add(socket);
      socket.once('close', () => mail.#sockets.delete(socket));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
    mail.port = (server.server.address() as AddressInfo).port;
    onTestFinished(() => {
      mail.#cut();
      server.close();
    });
    return mail;
  }

  /** Resolves when the server has kept the next message, or seen the next recipient. */
  next(event: 'kept' | 'RCPT'): Promise<unknown> {
    return once(this.events, event);
  }

  withId(messageId: string): KeptMessage[] {
    return this.kept.filter(({ raw }) => header(raw, 'Message-ID') === messageId);
  }

  #cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** A header of a message, unfolded. */
export function header(raw: string, name: string): string | undefined {
  const [head = ''] = raw.split('\r\n\r\n');
  const found = new RegExp(`^${name}:[ \\t]*(.*)$`, 'im').exec(head.replaceAll(/\r\n[ \t]+/g, ' '));
  return found?.[1]?.trim();
}

import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { onTestFinished } from 'vitest';

/** A mail as the server took it. */
export interface ReceivedMail {
  from: string;
  to: string[];
  /** Headers by name in lower case; folded lines joined. */
  headers: Map<string, string>;
  body: string;
}

/** A mail server on loopback. */
export interface MailServer {
  port: number;
  mails: ReceivedMail[];
  /** Replies for the next recipients, in turn: a code such as 450, or undefined to accept. */
  refusals: (number | undefined)[];
  /** User names of those who logged in. */
  logins: string[];
}

/** What a mail server of a test may differ in. */
export interface MailServerOptions {
  /** The only password it takes; undefined: nobody logs in. */
  password?: string;
  /** TLS from the first byte, with this key and certificate (PEM). */
  tls?: { key: string; cert: string };
  /** Where it listens; default 127.0.0.1. */
  host?: string;
}

/** Starts a real SMTP server, without STARTTLS, that ends with the test. */
export async function startMailServer({
  password,
  tls,
  host = '127.0.0.1',
}: MailServerOptions = {}): Promise<MailServer> {
  const record: Omit<MailServer, 'port'> = { mails: [], refusals: [], logins: [] };
  const options: SMTPServerOptions = {
    ...(tls ? { secure: true, ...tls } : { disabledCommands: ['STARTTLS'] }),
    authOptional: password === undefined,
    allowInsecureAuth: true,
    disableReverseLookup: true,
    onAuth({ username = '', password: given = '' }, _session, callback) {
      // a server that repeats what it was told, as some do
      if (given !== password) return callback(new Error(`bad login ${username}:${given}`));
      record.logins.push(username);
      callback(null, { user: username });
    },
    onRcptTo(_address, _session, callback) {
      const responseCode = record.refusals.shift();
      callback(responseCode === undefined ? null : Object.assign(new Error('4.2.0 greylisted'), { responseCode }));
    },
    onData(stream, { envelope }, callback) {
      text(stream).then((raw) => {
        const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address;
        record.mails.push({ from, to: envelope.rcptTo.map(({ address }) => address), ...parse(raw) });
        callback();
      }, callback);
    },
  };
  const server = new SMTPServer(options);
  server.on('error', () => undefined); // a client that broke off
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return Object.assign(record, { port: (server.server.address() as AddressInfo).port });
}

function parse(raw: string): Pick<ReceivedMail, 'headers' | 'body'> {
  const end = raw.indexOf('\r\n\r\n');
  const lines = raw
    .slice(0, end)
    .replaceAll(/\r\n[ \t]/g, ' ')
    .split('\r\n');
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  return { headers: new Map(headers), body: raw.slice(end + 4) };
}

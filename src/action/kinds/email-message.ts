import addressparser from 'nodemailer/lib/addressparser';

/** `a@b.example`, `Name <a@b.example>`, or its parts: always exactly one address. */
export type EmailAddress = string | { name?: string; address: string };

/** A message as it is sent. Message-ID, In-Reply-To and References are set by the action. */
export interface EmailMessage {
  from: EmailAddress;
  to: EmailAddress | EmailAddress[];
  cc?: EmailAddress | EmailAddress[];
  bcc?: EmailAddress | EmailAddress[];
  replyTo?: EmailAddress;
  subject: string;
  text?: string;
  html?: string;
  attachments?: { filename: string; content: string | Uint8Array; contentType?: string }[];
  /** Others than those that say who, to whom, what about and which message. */
  headers?: Record<string, string>;
}

interface Mailbox {
  name: string;
  address: string;
}

/** A message whose every part has been looked at: no part of it can become a header, a recipient or a file of its own. */
export interface CheckedMessage {
  from: Mailbox;
  to: Mailbox[];
  cc: Mailbox[];
  bcc: Mailbox[];
  replyTo: Mailbox | undefined;
  subject: string;
  text: string | undefined;
  html: string | undefined;
  attachments: { filename: string; content: string | Buffer; contentType: string | undefined }[];
  headers: Record<string, string>;
}

/** Line breaks, by which a header would end, and what else no header has. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u001f\u007f\u0085\u2028\u2029]/;
const ADDRESS = /^[^\s@<>,;:"()[\]\\]+@[^\s@<>,;:"()[\]\\]+$/u;
const HEADER_NAME = /^[A-Za-z][A-Za-z0-9-]*$/;
const RESERVED_HEADER =
  /^(from|sender|to|cc|bcc|reply-to|subject|date|message-id|in-reply-to|references|mime-version|content-.*|return-path|received|dkim-signature|resent-.*)$/i;

/**
 * Checks a message made of an action's arguments. Throws, saying which part it is, for line breaks in headers, for more than one address where
 * one belongs, and for headers that would change who gets it or which message it is.
 */
export function checkMessage(message: EmailMessage): CheckedMessage {
  const checked: CheckedMessage = {
    from: mailbox('from', message.from),
    to: mailboxes('to', message.to),
    cc: mailboxes('cc', message.cc),
    bcc: mailboxes('bcc', message.bcc),
    replyTo: message.replyTo === undefined ? undefined : mailbox('replyTo', message.replyTo),
    subject: oneLine('subject', message.subject),
    text: contentOf('text', message.text),
    html: contentOf('html', message.html),
    attachments: (message.attachments ?? []).map(({ filename, content, contentType }, i) => ({
      filename: oneLine(`attachments[${i}].filename`, filename),
      content: bytesOf(`attachments[${i}].content`, content),
      contentType: contentType === undefined ? undefined : oneLine(`attachments[${i}].contentType`, contentType),
    })),
    headers: checkHeaders(message.headers ?? {}),
  };
  if (checked.to.length + checked.cc.length + checked.bcc.length === 0)
    throw new Error('the message has no recipients');
  if (checked.text === undefined && checked.html === undefined)
    throw new Error('the message has neither text nor html');
  return checked;
}

/** Everybody who gets the message, once each. */
export function recipientsOf({ to, cc, bcc }: CheckedMessage): string[] {
  return [...new Map([...to, ...cc, ...bcc].map(({ address }) => [comparable(address), address])).values()];
}

/** Two spellings of one address become equal: nobody tells mailboxes apart by case. */
export function comparable(address: string): string {
  return address.toLowerCase();
}

function mailboxes(part: string, value: EmailAddress | EmailAddress[] | undefined): Mailbox[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value.map((one, i) => mailbox(`${part}[${i}]`, one)) : [mailbox(part, value)];
}

function mailbox(part: string, value: EmailAddress): Mailbox {
  const text = typeof value === 'string' ? value : value.address;
  const name = typeof value === 'string' ? undefined : value.name;
  const parsed = addressparser(oneLine(part, text));
  const [only] = parsed;
  if (parsed.length !== 1 || only?.address === undefined || !ADDRESS.test(only.address))
    throw new Error(
      `${part}: ${JSON.stringify(text.slice(0, 100))} is not one e-mail address; write several as a list`,
    );
  if (name === undefined) {
    if (/[@<>]/.test(only.name))
      throw new Error(`${part}: a name that looks like an address; give name and address apart`);
    return { name: only.name, address: only.address };
  }
  if (only.address !== text)
    throw new Error(`${part}: ${JSON.stringify(text.slice(0, 100))} is not a bare e-mail address`);
  return { name: oneLine(`${part}.name`, name), address: only.address };
}

function oneLine(part: string, value: unknown): string {
  if (typeof value !== 'string') throw new Error(`${part}: not a text`);
  if (CONTROL.test(value))
    throw new Error(`${part}: a line break or another control character, which no header may hold`);
  return value;
}

/** Text only: nodemailer would read an object's `path` or `href` from disk or network. */
function contentOf(part: string, value: unknown): string | undefined {
  if (value !== undefined && typeof value !== 'string') throw new Error(`${part}: not a text`);
  return value;
}

function bytesOf(part: string, value: unknown): string | Buffer {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value);
  throw new Error(`${part}: neither text nor bytes`);
}

function checkHeaders(headers: Record<string, string>): Record<string, string> {
  for (const [name, value] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name)) throw new Error(`headers: ${JSON.stringify(name.slice(0, 100))} is no header's name`);
    if (RESERVED_HEADER.test(name))
      throw new Error(`headers: ${name} is set by the action or by the message's other parts`);
    oneLine(`headers.${name}`, value);
  }
  return { ...headers };
}

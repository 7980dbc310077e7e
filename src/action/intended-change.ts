import { parseKeepingNumbers } from '../batch/exact-json.ts';

/** What an action would change, for an approver to compare: as text, line by line. */
export interface IntendedChange {
  /** What is changed: a relation, a file, an address. */
  what: string;
  /** As it stood when the action was proposed; undefined: there is nothing to compare with. */
  before: string | undefined;
  after: string;
}

interface Present {
  relation?: string;
  rows?: Record<string, unknown>[];
  path?: string;
  text?: string;
  sha256?: string | null;
  url?: string;
  content?: string;
  request?: { method: string; url: string; body: string };
  message?: Record<string, unknown>;
  /** Of `postgres` rows, of `file` what is to be written. */
  intended?: Record<string, unknown>[] | { sha256: string; bytes: number; text?: string };
}

/**
 * Makes of what the target showed, and was to show, two texts that can be compared. Knows what the kinds postgres, file, http and email keep in
 * `present`; undefined for anything else, which is then shown as it is.
 */
export function intendedChange(kind: string, presentJson: string | null): IntendedChange | undefined {
  const present = presentJson === null ? null : (JSON.parse(presentJson) as Present | null);
  if (present === null || typeof present !== 'object') return undefined;
  switch (kind) {
    case 'postgres':
      return changeOfRows(present);
    case 'file':
      return changeOfFile(present);
    case 'http':
      return changeOfResource(present);
    case 'email':
      return present.message && { what: 'the message', before: undefined, after: describeMessage(present.message) };
    default:
      return undefined;
  }
}

function changeOfRows({ relation, rows, intended }: Present): IntendedChange | undefined {
  if (relation === undefined || rows === undefined || !Array.isArray(intended)) return undefined;
  return { what: relation, before: rows.map(describeRow).join('\n'), after: intended.map(describeRow).join('\n') };
}

function describeRow(row: Record<string, unknown>): string {
  return Object.entries(row)
    .map(([column, value]) => `${column} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ');
}

function changeOfFile({ path, sha256, text, intended }: Present): IntendedChange | undefined {
  if (path === undefined || intended === undefined || Array.isArray(intended)) return undefined;
  const after = intended.text ?? `${intended.bytes} bytes that are no text, sha256 ${intended.sha256}`;
  if (sha256 === null || sha256 === undefined) return { what: `${path} (new)`, before: undefined, after };
  return { what: path, before: text ?? `bytes that are no text, sha256 ${sha256}`, after };
}

/** What was read stands at another address than what is written to where a payment, say, depends on an account. */
function changeOfResource({ url, content, request }: Present): IntendedChange | undefined {
  if (request === undefined) return undefined;
  const isSame = url === request.url && content !== undefined;
  return {
    what: `${request.method} ${request.url}`,
    before: isSame ? prettyJson(content) : undefined,
    after: prettyJson(request.body),
  };
}

type Mailbox = { name: string; address: string };

function describeMessage(message: Record<string, unknown>): string {
  const boxes = (value: unknown) =>
    (value as Mailbox[]).map(({ name, address }) => (name === '' ? address : `${name} <${address}>`)).join(', ');
  const { from, to, cc, bcc, replyTo, subject, text, html, attachments, headers } = message;
  const heads: [string, string][] = [
    ['From', boxes([from])],
    ['To', boxes(to)],
    ['Cc', boxes(cc)],
    ['Bcc', boxes(bcc)],
    ['Reply-To', replyTo ? boxes([replyTo]) : ''],
    ['Subject', String(subject)],
    ...Object.entries((headers ?? {}) as Record<string, string>),
    ['Attachments', (attachments as string[]).join(', ')],
  ];
  const lines = heads.filter(([, value]) => value !== '').map(([name, value]) => `${name}: ${value}`);
  return [...lines, ...[text, html].filter((body) => body !== undefined).flatMap((body) => ['', String(body)])].join(
    '\n',
  );
}

/** Indented, its numbers as they were; text that is no JSON stays as it is. */
function prettyJson(text: string): string {
  try {
    return JSON.stringify(parseKeepingNumbers(text), null, 2);
  } catch {
    return text;
  }
}

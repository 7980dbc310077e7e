import type { ActionContext, Undo } from '../define-action.ts';
import type { EmailMessage } from './email-message.ts';
import type { FoundEmail, MessageIds } from './email-read-back.ts';
import type { QueueReply, SmtpOptions } from './email-send.ts';
import type { Secrets } from './secrets.ts';

/** How one kind of message is sent over SMTP, found again and corrected. Functions of `args` must give the same for the same arguments. */
export interface EmailOptions<Args> {
  /** The server and the account; asked for before each message, never recorded, logged or shown. */
  smtp(): SmtpOptions | Promise<SmtpOptions>;
  message(args: Args): EmailMessage;
  /**
   * Finds a message by its id where every message sent is sure to show up (the sent folder over IMAP, the API of the sending service, a
   * journal mailbox); undefined: it is not there. Without it, all that is known is the server's "queued" (weak evidence), and after a crash
   * nothing at all: a person must look.
   */
  lookUp?(ids: MessageIds, lookUp: { args: Args; signal: AbortSignal }): Promise<FoundEmail | undefined>;
  /** True, or why the message must not be sent now. */
  precondition?(args: Args, context: ActionContext): Promise<true | string> | true | string;
  rollback: EmailRollback<Args>;
  /** What stands behind the @ of Message-IDs. Default: the sender's domain. */
  messageIdDomain?: string;
  /** Milliseconds after the deadline within which the message may still turn up in the look-up; 10 minutes by default. */
  settleMs?: number;
}

/** The id stays the same whatever becomes of the sender's address in a later version of the agent. */
export interface EmailBefore {
  messageId: string;
  /** Of the message's parts as JSON. */
  contentSha256: string;
}

/** What the functions of one e-mail action share. */
export interface Email<Args> {
  options: EmailOptions<Args>;
  secrets: Secrets;
}

export type EmailUndo<Args> = Undo<Args, EmailBefore, QueueReply>;

/** How a message that has gone out is made good; see `Rollback`. A message cannot be called back. */
export type EmailRollback<Args> =
  | {
      kind: 'compensating';
      plan: string;
      /** The correction; it answers to the first message, and goes to nobody whose server refused that one. */
      correction(undo: EmailUndo<Args>): EmailMessage;
    }
  | { kind: 'out-of-band'; plan: string }
  | { kind: 'none'; cannot: string };

/** A Message-ID: the key has 64 digits, which is the most that may stand before the @. */
export function messageIdOf(key: string, domain: string): string {
  return `<${key}@${domain}>`;
}

export function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).replace(/>$/, '');
}

import { messageOf } from '../../errors.ts';
import { type ActionContext, NoEffect, type ReadBack, type Rollback, UndoRefused } from '../define-action.ts';
import { type CheckedMessage, checkMessage, comparable, recipientsOf } from './email-message.ts';
import {
  domainOf,
  type Email,
  type EmailBefore,
  type EmailRollback,
  type EmailUndo,
  messageIdOf,
} from './email-options.ts';
import { judgeEmail } from './email-read-back.ts';
import { type QueueReply, sendMessage } from './email-send.ts';
import { Recent } from './recent.ts';

type Compensation<Args> = Extract<EmailRollback<Args>, { kind: 'compensating' }>;

/** What this process knows of a correction it has sent: the server's word, that nothing went out, or neither. */
type Sent = { reply: QueueReply } | 'nothing' | 'in question';

/** What the functions of a correction share. */
interface Correction<Args> extends Email<Args> {
  compensation: Compensation<Args>;
  sent: Recent<Sent>;
}

export function rollbackOf<Args>(email: Email<Args>): Rollback<Args, EmailBefore, QueueReply> {
  const { rollback } = email.options;
  if (rollback.kind !== 'compensating') return rollback;
  const correction = { ...email, compensation: rollback, sent: new Recent<Sent>() };
  return {
    kind: 'compensating',
    plan: rollback.plan,
    undo: (undo, context) => email.secrets.guard(() => correct(correction, undo, context)),
    readBack: (undo, context) => email.secrets.guard(() => readCorrection(correction, undo, context)),
  };
}

/** Sends the correction, once: not if it is known to be there, nor while that is in question. */
async function correct<Args>(email: Correction<Args>, undo: EmailUndo<Args>, context: ActionContext): Promise<void> {
  const { options, sent, secrets } = email;
  const earlier = sent.get(context.key);
  if (earlier === 'in question' && !options.lookUp)
    throw new UndoRefused('a correction was sent, and it cannot be told whether it will be delivered');
  if (typeof earlier === 'object') return;
  const { message, envelope } = correctionOf(email, undo, context.key);
  const lookUp = (messageId: string, serverMessageId: string | undefined) =>
    options.lookUp?.({ messageId, serverMessageId }, { args: undo.args, signal: context.signal });
  if ((await lookUp(envelope.messageId, undefined)) !== undefined) return;
  if (earlier === 'in question')
    throw new Error(`the correction ${envelope.messageId} is in question, and not found yet`);
  if (!undo.effect && (await lookUp(undo.before.messageId, undefined)) === undefined)
    throw new UndoRefused(
      `it is not known whether message ${undo.before.messageId}, which would be corrected, was sent`,
    );
  const smtp = await options.smtp();
  sent.set(context.key, 'in question');
  try {
    sent.set(context.key, { reply: await sendMessage(smtp, message, envelope, { signal: context.signal, secrets }) });
  } catch (error) {
    if (!(error instanceof NoEffect)) throw error;
    sent.set(context.key, 'nothing');
    throw new Error(`the correction was not sent: ${messageOf(error)}`);
  }
}

/**
 * Reads the correction back. That it is not found is believed only where this process knows that it did not go out: whoever died sending it
 * may have been heard (rule R16).
 */
async function readCorrection<Args>(
  email: Correction<Args>,
  undo: EmailUndo<Args>,
  context: ActionContext,
): Promise<ReadBack> {
  const { options, sent, secrets } = email;
  const memory = sent.get(context.key);
  const reply = typeof memory === 'object' ? memory.reply : undefined;
  const { message, envelope } = correctionOf(email, undo, context.key);
  const ids = { messageId: envelope.messageId, serverMessageId: reply?.serverMessageId };
  if (memory === 'nothing') return { found: 'nothing', evidence: { ...ids, note: 'it was not sent' } };
  const lookUp = options.lookUp && (() => options.lookUp?.(ids, { args: undo.args, signal: context.signal }));
  const found = await judgeEmail(ids, message, reply, lookUp);
  return secrets.json(found.found === 'nothing' ? { found: 'unknown', evidence: found.evidence } : found);
}

/** The correction and where it goes: it answers to the first message, under the id by which those who got it know it. */
function correctionOf<Args>(email: Correction<Args>, undo: EmailUndo<Args>, key: string) {
  const message: CheckedMessage = checkMessage(email.compensation.correction(undo));
  const { messageId: first } = undo.before;
  const refused = new Set((undo.effect?.rejected ?? []).map(({ recipient }) => comparable(recipient)));
  const recipients = recipientsOf(message).filter((address) => !refused.has(comparable(address)));
  if (recipients.length === 0) throw new UndoRefused('nobody who would be corrected has got the message');
  const inReplyTo = [undo.effect?.serverMessageId, first].filter((id) => id !== undefined);
  return { message, envelope: { messageId: messageIdOf(key, domainOf(first)), inReplyTo, recipients } };
}

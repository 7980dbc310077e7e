import { createHash } from 'node:crypto';
import { messageOf } from '../../errors.ts';
import { type ActionContext, type ActionKind, NoEffect, type Precondition, type ReadBack } from '../define-action.ts';
import { rollbackOf } from './email-correction.ts';
import { type CheckedMessage, checkMessage } from './email-message.ts';
import { domainOf, type Email, type EmailBefore, type EmailOptions, messageIdOf } from './email-options.ts';
import { judgeEmail } from './email-read-back.ts';
import { type QueueReply, sendMessage } from './email-send.ts';
import { Secrets } from './secrets.ts';

/**
 * A message with a Message-ID made of the action's key. SMTP takes it as often as it is sent, so after a crash it counts as absent only if the
 * look-up says so once it has had its time; without a look-up it is unknown, never absent.
 */
export function emailAction<Args>(options: EmailOptions<Args>): ActionKind<Args, EmailBefore, QueueReply> {
  const secrets = new Secrets();
  const email = { options, secrets };
  return {
    kind: 'email',
    present: (args) => secrets.guard(() => presentMessage(checkMessage(options.message(args)))),
    precondition: (args, context) => secrets.guard(() => checkPrecondition(email, args, context)),
    execute: (args, before, context) => secrets.guard(() => execute(email, args, before, context)),
    verify: (args, before, effect, context) => secrets.guard(() => verify(email, args, before, effect, context)),
    rollback: rollbackOf(email),
    enforcesKey: false,
    settleMs: options.settleMs ?? 600_000,
  };
}

/** The message itself: the target shows nothing that could be compared with it. */
function presentMessage({ attachments, ...message }: CheckedMessage): unknown {
  return { message: { ...message, attachments: attachments.map(({ filename }) => filename) } };
}

async function checkPrecondition<Args>(
  { options, secrets }: Email<Args>,
  args: Args,
  context: ActionContext,
): Promise<Precondition<EmailBefore>> {
  let message: CheckedMessage;
  try {
    message = checkMessage(options.message(args));
  } catch (error) {
    return { holds: false, why: secrets.text(`the message cannot be sent: ${messageOf(error)}`) };
  }
  const verdict = (await options.precondition?.(args, context)) ?? true;
  if (verdict !== true) return { holds: false, why: secrets.text(verdict) };
  const domain = options.messageIdDomain ?? domainOf(message.from.address);
  const contentSha256 = createHash('sha256').update(JSON.stringify(message)).digest('hex');
  return { holds: true, before: { messageId: messageIdOf(context.key, domain), contentSha256 } };
}

async function execute<Args>(
  { options, secrets }: Email<Args>,
  args: Args,
  { messageId }: EmailBefore,
  context: ActionContext,
): Promise<QueueReply> {
  const { message, smtp, earlier } = await prepare(async () => ({
    message: checkMessage(options.message(args)),
    smtp: await options.smtp(),
    earlier: await options.lookUp?.({ messageId, serverMessageId: undefined }, { args, signal: context.signal }),
  }));
  if (earlier !== undefined) throw new Error(`message ${messageId} has been sent before, so it is not sent again`);
  return secrets.json(await sendMessage(smtp, message, { messageId }, { signal: context.signal, secrets }));
}

/** What goes wrong before a connection is made has no effect. */
async function prepare<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new NoEffect(`nothing was sent: ${messageOf(error)}`);
  }
}

async function verify<Args>(
  { options, secrets }: Email<Args>,
  args: Args,
  { messageId }: EmailBefore,
  effect: QueueReply | undefined,
  { signal }: ActionContext,
): Promise<ReadBack> {
  const ids = { messageId, serverMessageId: effect?.serverMessageId };
  const lookUp = options.lookUp && (() => options.lookUp?.(ids, { args, signal }));
  return secrets.json(await judgeEmail(ids, checkMessage(options.message(args)), effect ?? undefined, lookUp));
}

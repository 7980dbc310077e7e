import type { ReadBack } from '../define-action.ts';
import { type CheckedMessage, comparable, recipientsOf } from './email-message.ts';
import type { QueueReply } from './email-send.ts';

/** By what a message is looked up. */
export interface MessageIds {
  messageId: string;
  /** The id that the server said it gave the message instead; some services do. */
  serverMessageId: string | undefined;
}

/** A message that a look-up has found. What it gives of it is compared with what was intended. */
export interface FoundEmail {
  /** JSON for an auditor, such as folder, date and the id it was found by. */
  evidence: unknown;
  /** Addresses in To and Cc. */
  recipients?: string[];
  subject?: string;
}

/**
 * What is known of a message. A look-up counts for more than the server's word; that it finds nothing counts only where the server has never
 * said that it took the message. Throws where the look-up may only lag behind: it is asked again later.
 */
export async function judgeEmail(
  ids: MessageIds,
  message: CheckedMessage,
  reply: QueueReply | undefined,
  lookUp: (() => Promise<FoundEmail | undefined> | undefined) | undefined,
): Promise<ReadBack> {
  const known = {
    ...ids,
    ...(reply && { response: reply.response, accepted: reply.accepted, rejected: reply.rejected }),
  };
  const isPartial = reply !== undefined && reply.rejected.length > 0;
  if (lookUp) {
    const found = await lookUp();
    if (found === undefined && reply === undefined)
      return { found: 'nothing', evidence: { ...known, lookUp: 'not there' } };
    if (found === undefined)
      throw new Error(`the server has taken message ${ids.messageId}, and the look-up does not find it yet`);
    const problems = differencesOf(found, message);
    const evidence = {
      ...known,
      lookUp: found.evidence ?? 'found',
      ...(problems.length > 0 && { differences: problems }),
    };
    if (isPartial || problems.length > 0) return { found: 'something else', evidence };
    return { found: 'effect', evidence, strength: 'strong' };
  }
  if (reply === undefined)
    return { found: 'unknown', evidence: { ...known, note: 'it may have been sent, and there is no look-up to tell' } };
  if (isPartial) return { found: 'something else', evidence: known };
  return {
    found: 'effect',
    evidence: { ...known, note: 'the server has queued it; no look-up has confirmed it' },
    strength: 'weak',
  };
}

function differencesOf(found: FoundEmail, message: CheckedMessage): string[] {
  const problems: string[] = [];
  if (found.subject !== undefined && found.subject !== message.subject)
    problems.push(`the subject is ${JSON.stringify(found.subject)}`);
  if (found.recipients === undefined) return problems;
  const shown = new Set(found.recipients.map(comparable));
  const all = new Set(recipientsOf(message).map(comparable));
  for (const { address } of [...message.to, ...message.cc])
    if (!shown.has(comparable(address))) problems.push(`${address} is missing`);
  for (const address of shown) if (!all.has(address)) problems.push(`${address} was not intended`);
  return problems;
}

import { z } from 'zod';

const content = z.union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() }))]);
const request = z.looseObject({ messages: z.array(z.looseObject({ role: z.string(), content })).min(1) });
const response = z.looseObject({ content, stop_reason: z.string().nullish() });

/** What a journaled request has said to its model. */
export interface SaidToModel {
  first: string;
  last: string;
  /** Replies of the model that it holds already. */
  replies: number;
}

/** Reads the body of a request; undefined where it is none of the agent's. */
export function readRequest(body: string): SaidToModel | undefined {
  const messages = parse(body, request)?.messages;
  const [first] = messages ?? [];
  const last = messages?.at(-1);
  if (messages === undefined || first === undefined || last === undefined) return undefined;
  return {
    first: textOf(first.content),
    last: textOf(last.content),
    replies: messages.filter(({ role }) => role === 'assistant').length,
  };
}

/** Reads the body of an answer; one that is no message is its own text. */
export function readResponse(body: string): { text: string; isCut: boolean } {
  const message = parse(body, response);
  if (message === undefined) return { text: body, isCut: false };
  return { text: textOf(message.content), isCut: message.stop_reason === 'max_tokens' };
}

/** The text of a message, as the agent reads it. */
function textOf(value: z.infer<typeof content>): string {
  if (typeof value === 'string') return value;
  return value.flatMap(({ type, text }) => (type === 'text' && text !== undefined ? [text] : [])).join('\n');
}

function parse<T>(body: string, schema: z.ZodType<T>): T | undefined {
  try {
    return schema.safeParse(JSON.parse(body)).data;
  } catch {
    return undefined; // not JSON
  }
}

import { z } from 'zod';

const block = z.looseObject({ type: z.string(), text: z.string().optional() });
const content = z.union([z.string(), z.array(block)]);
const message = z.looseObject({ role: z.enum(['user', 'assistant', 'system']), content });
const counted = { model: z.string().min(1), messages: z.array(message).min(1), system: content.optional() };

/** Only what an answer depends on is checked; everything else a client sends is accepted and ignored. */
const MESSAGE_REQUEST = z.looseObject({ ...counted, max_tokens: z.int().positive(), stream: z.boolean().optional() });
const COUNT_REQUEST = z.looseObject(counted);

/** A request for an answer, as far as the simulator reads it. */
export type MessageRequest = z.infer<typeof MESSAGE_REQUEST>;
/** A request to count tokens. */
export type CountRequest = z.infer<typeof COUNT_REQUEST>;
type Content = z.infer<typeof content>;

/** The request in `body`, or a sentence saying what is wrong with it (for an `invalid_request_error`). */
export function parseMessageRequest(body: Buffer): MessageRequest | string {
  return parse(body, MESSAGE_REQUEST);
}

/** As `parseMessageRequest`, for `count_tokens`, which takes no `max_tokens`. */
export function parseCountRequest(body: Buffer): CountRequest | string {
  return parse(body, COUNT_REQUEST);
}

/** The text of a message or a system prompt; images and other blocks have none. */
export function textOf(value: Content | undefined): string {
  if (value === undefined || typeof value === 'string') return value ?? '';
  return value.map((part) => part.text ?? '').join('\n');
}

function parse<T>(body: Buffer, schema: z.ZodType<T>): T | string {
  let json: unknown;
  try {
    json = JSON.parse(body.toString('utf8'));
  } catch (error) {
    return `The request body is not valid JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  return `${issue?.path.join('.') || 'body'}: ${issue?.message ?? 'invalid'}`;
}

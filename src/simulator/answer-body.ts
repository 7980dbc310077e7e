import type { Charge } from './price-list.ts';

/** A produced answer, before it is written as JSON or as a stream. */
export type Answer = {
  readonly messageId: string;
  readonly model: string;
  readonly text: string;
  /** The text ends where the request's `max_tokens` did. */
  readonly isCut: boolean;
  readonly charge: Charge;
};

/** A stream has at most about this many text events, whatever the length of the answer... */
const MAX_DELTAS = 16;
/** ...and short answers are not chopped finer than this, in UTF-16 units. */
const MIN_DELTA_LENGTH = 24;

/** The start of the message and of its block, and a ping. */
const EVENTS_BEFORE_CONTENT = 3;

/** As English text has it, about. */
const UNITS_PER_TOKEN = 4;

/** The text that `tokens` output tokens have room for, in UTF-16 units; a pair of surrogates stays whole. */
export function cutToTokens(text: string, tokens: number): string {
  const most = tokens * UNITS_PER_TOKEN;
  if (text.length <= most) return text;
  const cut = text.slice(0, most);
  return cut.isWellFormed() || !text.isWellFormed() ? cut : cut.slice(0, -1);
}

type StopReason = 'end_turn' | 'max_tokens';

function stopReasonOf({ isCut }: Answer): StopReason {
  return isCut ? 'max_tokens' : 'end_turn';
}

/** The answer as the body of a plain response. */
export function answerAsJson(answer: Answer): string {
  return JSON.stringify(
    messageOf(answer, [{ type: 'text', text: answer.text, citations: null }], stopReasonOf(answer)),
  );
}

/** The answer as server-sent events. As at the real provider, only the last count of output tokens is the true one. */
export function answerAsEvents(answer: Answer): string {
  const start = messageOf(answer, [], null);
  return [
    event('message_start', { message: { ...start, usage: usageOf(answer.charge, 1) } }),
    event('content_block_start', { index: 0, content_block: { type: 'text', text: '', citations: null } }),
    event('ping'),
    ...deltasOf(answer.text).map((text) =>
      event('content_block_delta', { index: 0, delta: { type: 'text_delta', text } }),
    ),
    event('content_block_stop', { index: 0 }),
    event('message_delta', {
      delta: { stop_reason: stopReasonOf(answer), stop_sequence: null, stop_details: null, container: null },
      usage: usageOf(answer.charge, answer.charge.outputTokens),
    }),
    event('message_stop'),
  ].join('');
}

/** The stream's beginning, in whole events: some of the content, and neither its end nor the count of its tokens. */
export function beginningOfEvents(body: Buffer): Buffer {
  const events = body.toString().split(/(?<=\n\n)/);
  return Buffer.from(events.slice(0, Math.max(EVENTS_BEFORE_CONTENT + 1, events.length >> 1)).join(''));
}

/** An error in the middle of a stream, or in its place. */
export function errorEvent(type: string, message: string): string {
  return event('error', { error: { type, message } });
}

function messageOf(answer: Answer, content: readonly object[], stopReason: StopReason | null) {
  return {
    id: answer.messageId,
    type: 'message',
    role: 'assistant',
    model: answer.model,
    content,
    stop_reason: stopReason,
    stop_sequence: null,
    stop_details: null,
    container: null,
    usage: usageOf(answer.charge, answer.charge.outputTokens),
  };
}

function usageOf(charge: Charge, outputTokens: number) {
  return {
    input_tokens: charge.inputTokens,
    output_tokens: outputTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
    server_tool_use: null,
    service_tier: 'standard',
  };
}

function event(type: string, data: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}

function deltasOf(text: string): string[] {
  const length = Math.max(MIN_DELTA_LENGTH, Math.ceil(text.length / MAX_DELTAS));
  const deltas: string[] = [];
  for (let from = 0; from < text.length; from += length) deltas.push(text.slice(from, from + length));
  return deltas;
}

import { type AnswerFacts, factsOfMessage, isObject, stringOf, usageOf } from './usage.ts';

/** The events that end an answer, in the Anthropic and the OpenAI APIs (whose chat completions end with `[DONE]`). */
const FINAL_EVENTS = new Set<unknown>(['message_stop', 'response.completed', 'response.incomplete']);
/** OpenAI's word for an answer that was begun and not finished. */
const FAILED_EVENT = 'response.failed';

/** A CR at the end of a chunk may be the half of a CR LF. */
const LINE_END = /\r\n|\n|\r(?!$)/;

/**
 * Reads a `text/event-stream` answer as it passes by: its usage (the cumulative one of the last event counts), whether its final event has
 * come, and an error event inside it, which is a refusal though the status was 200.
 */
export class EventStreamReader {
  #facts: Omit<AnswerFacts, 'usage'> = { messageId: undefined, model: undefined };
  #usage: Record<string, unknown> | undefined;
  #begun = false;
  #final = false;
  #error: string | undefined;
  #isOver = false;
  #rest = '';
  readonly #decoder = new TextDecoder();

  push(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split(LINE_END);
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line.startsWith('data:')) this.#read(line.slice(5).trim());
      else if (line === '') this.#isOver ||= this.#final || this.#error !== undefined;
    }
  }

  /** True once the event that ends the stream, an error too, has come with the empty line that a client needs to see it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** True once the event that ends an answer has come. */
  get isComplete(): boolean {
    return this.#final;
  }

  /** True once an event of an answer has come: something was generated, and may be charged whatever follows. */
  get hasBegun(): boolean {
    return this.#begun;
  }

  get facts(): AnswerFacts {
    return { ...this.#facts, usage: this.#usage && usageOf(this.#usage) };
  }

  /** The error event's JSON text, if one came. */
  get error(): string | undefined {
    return this.#error;
  }

  #read(data: string): void {
    if (data === '[DONE]') {
      this.#final = true;
      return;
    }
    const event = parse(data);
    if (event === undefined) return;
    const message = isObject(event.message) ? event.message : isObject(event.response) ? event.response : event;
    if (message !== event || event.type === undefined) this.#merge(message);
    if (isObject(event.usage)) this.#mergeUsage(event.usage);
    if (errorOf(event)) {
      this.#error ??= data;
      if (event.type === FAILED_EVENT) this.#begun = true;
    } else if (event.type !== 'ping') this.#begun = true;
    if (FINAL_EVENTS.has(event.type)) this.#final = true;
  }

  #merge(message: Record<string, unknown>): void {
    const { messageId, model } = factsOfMessage(message);
    this.#facts = { messageId: messageId ?? this.#facts.messageId, model: model ?? this.#facts.model };
    if (isObject(message.usage)) this.#mergeUsage(message.usage);
  }

  /** Later counts are cumulative; an event that leaves one out, such as the age of cache writes, does not take it back. */
  #mergeUsage(usage: Record<string, unknown>): void {
    const stated = Object.entries(usage).filter(([, count]) => count !== null && count !== 0);
    this.#usage = { ...this.#usage, ...Object.fromEntries(stated) };
  }
}

function parse(data: string): Record<string, unknown> | undefined {
  try {
    const parsed: unknown = JSON.parse(data);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined; // not JSON: nothing an answer is priced by
  }
}

/**
 * The error that a body or event is about, if it is about one: in `error`; in a failed response's (OpenAI's) `error`; or, in OpenAI's event
 * of type `error`, at the top.
 */
function errorOf(event: Record<string, unknown> | undefined): Record<string, unknown> | undefined {
  if (event === undefined) return undefined;
  if (isObject(event.error)) return event.error;
  if (isObject(event.response) && isObject(event.response.error)) return event.response.error;
  return event.type === 'error' || event.type === FAILED_EVENT ? { ...event, type: undefined } : undefined;
}

/** The message of an error body or event; the start of the text where it has none. */
export function errorMessage(body: string): string {
  const error = errorOf(parse(body));
  return stringOf(error?.message) ?? stringOf(error?.type) ?? (body.slice(0, 200) || 'no message');
}

/** The code of an error body or event, where OpenAI says what its type leaves open; gateways give a status. */
export function errorCode(body: string): string | undefined {
  const code = errorOf(parse(body))?.code;
  return typeof code === 'number' ? String(code) : stringOf(code);
}

/** The type of an error body or event. */
export function errorType(body: string): string | undefined {
  return stringOf(errorOf(parse(body))?.type);
}

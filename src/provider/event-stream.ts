import { type AnswerFacts, factsOfMessage, isObject, stringOf, type Usage, usageOf } from './usage.ts';

/**
 * Reads a `text/event-stream` answer as it passes by: its usage (the cumulative one of the last event counts), whether its final event has
 * come, and an error event inside it, which is a refusal though the status was 200.
 */
export class EventStreamReader {
  #facts: AnswerFacts = { messageId: undefined, model: undefined, usage: undefined };
  #begun = false;
  #final = false;
  #error: string | undefined;
  #rest = '';
  readonly #decoder = new TextDecoder();

  push(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split(/\r\n|\n|\r/);
    this.#rest = lines.pop() ?? '';
    for (const line of lines) if (line.startsWith('data:')) this.#read(line.slice(5).trim());
  }

  /** True once the event that ends an answer has come (`message_stop`, `response.completed`, `[DONE]`). */
  get isComplete(): boolean {
    return this.#final;
  }

  /** True once an event of an answer has come: something was generated, and may be charged whatever follows. */
  get hasBegun(): boolean {
    return this.#begun;
  }

  get facts(): AnswerFacts {
    return this.#facts;
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
    const message = isObject(event.message) ? event.message : isObject(event.response) ? event.response : undefined;
    if (message) this.#merge(factsOfMessage(message));
    else if (event.type === undefined) this.#merge(factsOfMessage(event));
    if (isObject(event.usage)) this.#facts.usage = later(this.#facts.usage, usageOf(event.usage));
    if (event.type === 'error') this.#error = data;
    else if (event.type !== 'ping') this.#begun = true;
    if (event.type === 'message_stop' || event.type === 'response.completed') this.#final = true;
  }

  #merge(facts: AnswerFacts): void {
    this.#facts = {
      messageId: facts.messageId ?? this.#facts.messageId,
      model: facts.model ?? this.#facts.model,
      usage: facts.usage ?? this.#facts.usage,
    };
  }
}

/** Later counts are cumulative; an event that leaves one out does not take it back. */
function later(before: Usage | undefined, now: Usage): Usage {
  if (before === undefined) return now;
  return {
    inputTokens: now.inputTokens || before.inputTokens,
    outputTokens: now.outputTokens || before.outputTokens,
    cacheReadTokens: now.cacheReadTokens || before.cacheReadTokens,
    cacheWrite5mTokens: now.cacheWrite5mTokens || before.cacheWrite5mTokens,
    cacheWrite1hTokens: now.cacheWrite1hTokens || before.cacheWrite1hTokens,
  };
}

function parse(data: string): Record<string, unknown> | undefined {
  try {
    const parsed: unknown = JSON.parse(data);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined; // not JSON: nothing an answer is priced by
  }
}

/** The `error.message` of an error body or event; the start of the text where it has none. */
export function errorMessage(body: string): string {
  const parsed = parse(body);
  const error = parsed && isObject(parsed.error) ? parsed.error : undefined;
  return stringOf(error?.message) ?? stringOf(error?.type) ?? (body.slice(0, 200) || 'no message');
}

/** The `error.type` of an error body or event. */
export function errorType(body: string): string | undefined {
  const parsed = parse(body);
  return parsed && isObject(parsed.error) ? stringOf(parsed.error.type) : undefined;
}

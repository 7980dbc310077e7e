/** Token counts of one answer, as the provider reports them. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWrite5mTokens: number;
  cacheWrite1hTokens: number;
}

/** What an answer says about itself; `usage` is undefined where it states none (such as a list of models). */
export interface AnswerFacts {
  messageId: string | undefined;
  model: string | undefined;
  usage: Usage | undefined;
}

type Json = Record<string, unknown>;

/** Reads a whole JSON answer. A body that is not JSON states nothing. */
export function factsOfJson(body: string): AnswerFacts {
  try {
    const parsed: unknown = JSON.parse(body);
    return isObject(parsed) ? factsOfMessage(parsed) : nothing();
  } catch {
    return nothing();
  }
}

/** Builds the facts of an answer from a message object of the Anthropic or OpenAI APIs. */
export function factsOfMessage(message: Json): AnswerFacts {
  return {
    messageId: stringOf(message.id),
    model: stringOf(message.model),
    usage: isObject(message.usage) ? usageOf(message.usage) : undefined,
  };
}

/** Reads a `usage` object: Anthropic's, or OpenAI's names for the same. */
export function usageOf(usage: Json): Usage {
  const cached = isObject(usage.prompt_tokens_details) ? count(usage.prompt_tokens_details.cached_tokens) : 0;
  const byAge = isObject(usage.cache_creation) ? usage.cache_creation : {};
  const cacheWrite1hTokens = count(byAge.ephemeral_1h_input_tokens);
  return {
    inputTokens:
      usage.input_tokens === undefined ? Math.max(0, count(usage.prompt_tokens) - cached) : count(usage.input_tokens),
    outputTokens: count(usage.output_tokens ?? usage.completion_tokens),
    cacheReadTokens: count(usage.cache_read_input_tokens) + cached,
    // the sum may be newer than its parts: what they do not explain is of the common age
    cacheWrite5mTokens: Math.max(
      count(byAge.ephemeral_5m_input_tokens),
      count(usage.cache_creation_input_tokens) - cacheWrite1hTokens,
    ),
    cacheWrite1hTokens,
  };
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** A count that is negative, or too large to be one, counts nothing. */
function count(value: unknown): number {
  return typeof value === 'number' && value > 0 && value <= Number.MAX_SAFE_INTEGER ? Math.trunc(value) : 0;
}

function nothing(): AnswerFacts {
  return { messageId: undefined, model: undefined, usage: undefined };
}

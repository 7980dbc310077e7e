/** What one answer used, as the provider reports it. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWrite5mTokens: number;
  cacheWrite1hTokens: number;
  /** How it was served where that is not the standard way, by the names of a price's factors: `batch`, `priority`, `us`, `fast`. */
  modes: readonly string[];
  /** Uses of the provider's own tools, by name: `web_search`. */
  serverToolUses: Readonly<Record<string, number>>;
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
    usage: isObject(message.usage) ? usageOf({ service_tier: message.service_tier, ...message.usage }) : undefined,
  };
}

/** Reads a `usage` object: Anthropic's, or OpenAI's names for the same (which says the service tier beside it, not in it). */
export function usageOf(usage: Json): Usage {
  const extra = furtherIterations(usage.iterations);
  const cached = count(detailsOf(usage, 'prompt_tokens', 'input_tokens').cached_tokens);
  const byAge = isObject(usage.cache_creation) ? usage.cache_creation : {};
  const cacheWrite1hTokens = count(byAge.ephemeral_1h_input_tokens);
  return {
    // OpenAI counts what was read from the cache as input too
    inputTokens: Math.max(0, count(usage.input_tokens ?? usage.prompt_tokens) - cached) + extra.inputTokens,
    outputTokens: count(usage.output_tokens ?? usage.completion_tokens) + extra.outputTokens,
    cacheReadTokens: count(usage.cache_read_input_tokens) + cached + extra.cacheReadTokens,
    // the sum may be newer than its parts: what they do not explain is of the common age
    cacheWrite5mTokens:
      Math.max(count(byAge.ephemeral_5m_input_tokens), count(usage.cache_creation_input_tokens) - cacheWrite1hTokens) +
      extra.cacheWrite5mTokens,
    cacheWrite1hTokens: cacheWrite1hTokens + extra.cacheWrite1hTokens,
    modes: [...new Set([...modesOf(usage), ...extra.modes])],
    serverToolUses: serverToolUses(usage.server_tool_use),
  };
}

/** Values that mean the standard way. */
const STANDARD = new Set<unknown>([undefined, null, 'standard', 'default', 'global', 'not_available']);

function modesOf(usage: Json): string[] {
  const stated = [usage.service_tier, usage.inference_geo, usage.speed].filter((mode) => !STANDARD.has(mode));
  const audio =
    count(detailsOf(usage, 'prompt_tokens', 'input_tokens').audio_tokens) +
    count(detailsOf(usage, 'completion_tokens', 'output_tokens').audio_tokens);
  return [...stated.map(String), ...(audio > 0 ? ['audio'] : [])];
}

/** Anthropic leaves what a compaction used out of the counts above; an iteration of another kind is another model's, and priced as such. */
function furtherIterations(iterations: unknown): Omit<Usage, 'serverToolUses'> {
  const sum = { ...NO_TOKENS, modes: [] as string[] };
  for (const iteration of Array.isArray(iterations) ? iterations : []) {
    if (!isObject(iteration) || iteration.type === undefined || iteration.type === 'message') continue;
    if (iteration.type !== 'compaction') sum.modes.push(String(iteration.type));
    const used = usageOf({ ...iteration, iterations: undefined });
    for (const kind of TOKEN_KINDS) sum[kind] += used[kind];
  }
  return sum;
}

const NO_TOKENS = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWrite5mTokens: 0, cacheWrite1hTokens: 0 };
const TOKEN_KINDS = Object.keys(NO_TOKENS) as (keyof typeof NO_TOKENS)[];

function serverToolUses(uses: unknown): Record<string, number> {
  const counts = Object.entries(isObject(uses) ? uses : {}).map(
    ([name, times]) => [name.replace(/_requests$/, ''), count(times)] as const,
  );
  return Object.fromEntries(counts.filter(([, times]) => times > 0));
}

function detailsOf(usage: Json, ...of: string[]): Json {
  return of.map((name) => usage[`${name}_details`]).find(isObject) ?? {};
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

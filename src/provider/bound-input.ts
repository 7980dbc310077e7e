import type { ServerToolBound } from './bound-server-tools.ts';
import type { ModelPrice } from './model-price.ts';
import { Unbounded } from './unbounded.ts';
import { isObject } from './usage.ts';

/** The most input tokens of a request, all kinds together, and which kinds of cache writes it may have. */
export interface InputBound {
  tokens: number;
  writes5m: boolean;
  writes1h: boolean;
}

/** What the provider adds to any prompt: turns, and notes on thinking. Published figures are far lower. */
const PROMPT_OVERHEAD = 500;
/** Added once where there are tools; at most 530 are published (https://platform.claude.com/docs/en/about-claude/pricing#tool-use-pricing). */
const TOOLS_OVERHEAD = 1_000;
/** Added by a tool that the provider defines; the largest published is a browser toolset with 7,550 (same page, browser use tool). */
const DEFINED_TOOL_OVERHEAD = 8_000;
/** An image has at most 4,784 tokens, however few its bytes (https://platform.claude.com/docs/en/build-with-claude/vision). */
const IMAGE_TOKENS = 5_000;
/** Fields that bring text from elsewhere. */
const REFERENCES = ['previous_response_id', 'conversation', 'container', 'prompt_id'];

/**
 * Bounds the input by the bytes of the body, since a token is at least one byte of text. What is not text (documents, audio) or not in the
 * body (URLs, file ids) is bounded only by the model's context window.
 */
export function boundInput(
  price: ModelPrice,
  request: Record<string, unknown>,
  bodyBytes: number,
  tools: ServerToolBound,
): InputBound {
  const found: Found = { images: 0, elsewhere: undefined, cached: false, hour: false };
  look(request, found);
  const reference = REFERENCES.find((field) => request[field] !== undefined && request[field] !== null);
  const elsewhere = found.elsewhere ?? reference ?? (isObject(request.prompt) ? 'prompt' : undefined);
  const isReadAgain = tools.readings > 1;
  const window = price.contextTokens;
  if (window === undefined && (elsewhere !== undefined || isReadAgain))
    throw new Unbounded(
      `its ${elsewhere ?? 'tools'} may fill the context window of model ${price.model}, which is not known; give "context_tokens" with its price`,
    );
  const bytes = bodyBytes * (asksForFormat(request) ? 2 : 1); // the schema of an answer is told to the model again
  const text = bytes + found.images * IMAGE_TOKENS + overhead(request);
  const reading = elsewhere !== undefined || isReadAgain ? (window ?? text) : Math.min(text, window ?? text);
  return {
    tokens: reading * tools.readings,
    writes5m: found.cached || isReadAgain, // the provider caches between its own rounds
    writes1h: found.hour,
  };
}

function overhead({ tools }: Record<string, unknown>): number {
  if (!Array.isArray(tools) || tools.length === 0) return PROMPT_OVERHEAD;
  const defined = tools.filter((tool) => isObject(tool) && /_\d{8}$/.test(String(tool.type)));
  return PROMPT_OVERHEAD + TOOLS_OVERHEAD + defined.length * DEFINED_TOOL_OVERHEAD;
}

function asksForFormat(request: Record<string, unknown>): boolean {
  return ['output_format', 'output_config', 'response_format', 'text'].some((field) => isObject(request[field]));
}

interface Found {
  images: number;
  elsewhere: string | undefined;
  cached: boolean;
  hour: boolean;
}

function look(value: unknown, found: Found): void {
  if (Array.isArray(value)) for (const part of value) look(part, found);
  if (!isObject(value)) return;
  if (value.type === 'image' && isObject(value.source) && value.source.type === 'base64') found.images += 1;
  else if (isElsewhere(value)) found.elsewhere ??= String(value.type);
  if (isObject(value.cache_control)) {
    found.cached = true;
    if (value.cache_control.ttl === '1h') found.hour = true;
  }
  for (const part of Object.values(value)) look(part, found);
}

/** Parts whose tokens their bytes do not bound. */
const PARTS = new Set<unknown>([
  'image',
  'image_url',
  'input_image',
  'file',
  'input_file',
  'input_audio',
  'container_upload',
  'item_reference',
]);

function isElsewhere({ type, source }: Record<string, unknown>): boolean {
  if (PARTS.has(type)) return true;
  return type === 'document' && isObject(source) && source.type !== 'text' && source.type !== 'content';
}

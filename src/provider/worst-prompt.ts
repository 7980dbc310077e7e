import { isObject } from './usage.ts';

/**
 * Tokens that a prompt has beyond its bytes: a token stands for at least one byte of text, but the provider adds its own instructions for
 * tool use (346 at the most published, 735 for its computer tool, 700 for its text editor, 245 for bash) and the frame of each message.
 */
export const PROVIDER_PROMPT_TOKENS = 4_096;

/** A picture is counted by its size in pixels, and a plain one compresses to nearly nothing; the largest counts 4,784. */
export const PICTURE_TOKENS = 5_000;

/** What a request makes the provider read. */
export interface Prompt {
  /** At most; infinite where content comes from elsewhere. */
  tokens: number;
  /** Whether, and for how long, the body asks to keep the prompt. */
  cacheWrites: false | '5m' | '1h';
}

/** Parts of a body that stand for content kept at the provider; a `prompt` that is text stands for itself. */
const REFERENCES = ['container', 'previous_response_id', 'conversation', 'prompt'] as const;
/** Content of any size behind an address, or that is unpacked before it is counted (pages of a PDF, sound). */
const REFERRING_TYPES = new Set<unknown>([
  'url',
  'file',
  'image_url',
  'input_image',
  'input_file',
  'input_audio',
  'container_upload',
]);

export function readPrompt(bytes: number, body: Record<string, unknown>): Prompt {
  const prompt: Prompt = { tokens: bytes + PROVIDER_PROMPT_TOKENS, cacheWrites: false };
  if (REFERENCES.some((name) => isObject(body[name]) || (name !== 'prompt' && typeof body[name] === 'string')))
    prompt.tokens = Number.POSITIVE_INFINITY;
  // JSON.parse takes documents that a recursion could not walk
  const open: unknown[] = [body];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (Array.isArray(node)) for (const item of node) open.push(item);
    if (!isObject(node)) continue;
    look(node, prompt);
    for (const child of Object.values(node)) if (typeof child === 'object') open.push(child);
  }
  return prompt;
}

function look(node: Record<string, unknown>, prompt: Prompt): void {
  if (refers(node)) prompt.tokens = Number.POSITIVE_INFINITY;
  else if (node.type === 'base64') prompt.tokens += PICTURE_TOKENS;
  if (isObject(node.cache_control)) {
    const kept = node.cache_control.ttl === '1h' ? '1h' : '5m';
    if (prompt.cacheWrites !== '1h') prompt.cacheWrites = kept;
  }
}

function refers(node: Record<string, unknown>): boolean {
  const unpacked = node.type === 'base64' && !String(node.media_type).startsWith('image/');
  return unpacked || typeof node.file_id === 'string' || REFERRING_TYPES.has(node.type);
}

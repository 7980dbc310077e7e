import { OUTPUT_LIMITS } from './bound-output.ts';
import { isObject } from './usage.ts';

/**
 * The body of a paid request with its limit of output tokens lowered to `most`; every other byte stays as it is. A request of OpenAI's APIs
 * that says none is given one (Anthropic's always say one). A body that is no JSON object is returned unchanged.
 */
export function clampMaxTokens(body: Uint8Array, most: number): Uint8Array {
  const parsed = parse(body);
  if (parsed === undefined) return body;
  const { text, request } = parsed;
  const limits = limitsIn(text);
  const missing = limits.length === 0 ? limitFor(request) : undefined;
  if (missing !== undefined) {
    const end = text.lastIndexOf('}');
    return Buffer.from(`${text.slice(0, end)},"${missing}":${most}${text.slice(end)}`);
  }
  const tooHigh = limits.filter(({ start, end }) => isAbove(text.slice(start, end), most));
  if (tooHigh.length === 0) return body;
  return Buffer.from(
    tooHigh.reduceRight((clamped, { start, end }) => clamped.slice(0, start) + most + clamped.slice(end), text),
  );
}

function parse(body: Uint8Array): { text: string; request: Record<string, unknown> } | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    const request: unknown = JSON.parse(text);
    return isObject(request) ? { text, request } : undefined;
  } catch {
    return undefined;
  }
}

/** Where the API that a request without a limit belongs to takes one. */
function limitFor(request: Record<string, unknown>): string | undefined {
  if (request.messages !== undefined) return 'max_completion_tokens';
  if (request.input !== undefined) return 'max_output_tokens';
  return request.prompt === undefined ? undefined : 'max_tokens';
}

/** No limit at all, `null`, is above any. */
function isAbove(value: string, most: number): boolean {
  return value === 'null' || Number(value) > most;
}

interface Span {
  start: number;
  end: number;
}

/** Where in the text of a JSON object the values of its own limits stand: numbers, and null. */
function limitsIn(json: string): Span[] {
  const spans: Span[] = [];
  let depth = 0;
  for (let at = 0; at < json.length; at += 1) {
    const char = json[at];
    if (char === '{' || char === '[') depth += 1;
    else if (char === '}' || char === ']') depth -= 1;
    else if (char === '"') {
      const end = endOfString(json, at);
      const value = depth === 1 && isLimit(json.slice(at, end)) ? valueAfter(json, end) : undefined;
      if (value !== undefined) spans.push(value);
      at = end - 1;
    }
  }
  return spans;
}

function endOfString(json: string, start: number): number {
  let at = start + 1;
  while (json[at] !== '"') at += json[at] === '\\' ? 2 : 1;
  return at + 1;
}

function isLimit(quoted: string): boolean {
  return quoted.length < 200 && (OUTPUT_LIMITS as readonly unknown[]).includes(JSON.parse(quoted));
}

/** The number or null after a key's colon; undefined after a string that is no key, or before another value. */
function valueAfter(json: string, end: number): Span | undefined {
  const value = /\s*:\s*(null|-?\d[\d.eE+-]*)/y;
  value.lastIndex = end;
  const match = value.exec(json)?.[1];
  return match === undefined ? undefined : { start: value.lastIndex - match.length, end: value.lastIndex };
}

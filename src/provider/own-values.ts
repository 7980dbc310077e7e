/** Where something stands in a text. */
export interface Span {
  start: number;
  end: number;
}

/**
 * Where in the text of a valid JSON object the simple values (texts, numbers, true, false, null) of its own keys of these names stand. Reading
 * and writing JSON anew would change its numbers, so bodies are changed in place.
 */
export function ownValues(json: string, names: readonly string[]): Span[] {
  const spans: Span[] = [];
  let depth = 0;
  for (let at = 0; at < json.length; at += 1) {
    const char = json[at];
    if (char === '{' || char === '[') depth += 1;
    else if (char === '}' || char === ']') depth -= 1;
    else if (char === '"') {
      const end = endOfString(json, at);
      const value = depth === 1 && isNamed(json.slice(at, end), names) ? valueAfter(json, end) : undefined;
      if (value !== undefined) spans.push(value);
      at = end - 1;
    }
  }
  return spans;
}

/** The text with each of the spans, given in ascending order, replaced. */
export function replaceSpans(text: string, spans: readonly Span[], replacement: string): string {
  return spans.reduceRight(
    (changed, { start, end }) => changed.slice(0, start) + replacement + changed.slice(end),
    text,
  );
}

/** The text of a body that is a JSON object, and what it says; undefined where it is none. */
export function parseObject(body: Uint8Array): { text: string; value: Record<string, unknown> } | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? { text, value: value as Record<string, unknown> } : undefined;
  } catch {
    return undefined;
  }
}

function endOfString(json: string, start: number): number {
  let at = start + 1;
  while (json[at] !== '"') at += json[at] === '\\' ? 2 : 1;
  return at + 1;
}

function isNamed(quoted: string, names: readonly string[]): boolean {
  return quoted.length < 200 && names.includes(JSON.parse(quoted));
}

/** The simple value after a key's colon; undefined after a string that is no key, or before an object or a list. */
function valueAfter(json: string, end: number): Span | undefined {
  const colon = /\s*:\s*/y;
  colon.lastIndex = end;
  if (!colon.test(json)) return undefined;
  const start = colon.lastIndex;
  if (json[start] === '"') return { start, end: endOfString(json, start) };
  const value = /null|true|false|-?\d[\d.eE+-]*/y;
  value.lastIndex = start;
  return value.test(json) ? { start, end: value.lastIndex } : undefined;
}

/** What `JSON.parse` hands its reviver since ES2025: the exact text of a primitive. */
type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;
const rawJson = (JSON as unknown as { rawJSON(text: string): object }).rawJSON;

/**
 * A JSON text with its object keys sorted and white space dropped, and every number spelled as it was: `1.0` and `1` stay different, because
 * a model may see the difference (rule R10). Throws a SyntaxError if `text` is not JSON.
 */
export function canonicalJson(text: string): string {
  return JSON.stringify(
    parseWithSource(text, (_key, value, { source }) => {
      if (typeof value === 'number' && source !== undefined) return rawJson(source);
      if (value !== null && typeof value === 'object' && !Array.isArray(value)) return sortKeys(value);
      return value;
    }),
  );
}

function sortKeys(object: object): object {
  if ('rawJSON' in object && Object.getPrototypeOf(object) === null) return object;
  return Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1)));
}

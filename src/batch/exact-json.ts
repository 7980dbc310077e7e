type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;

// ES2025, not yet in TypeScript's library.
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;

const rawJson = (JSON as unknown as { rawJSON(text: string): object }).rawJSON;

/** Parses JSON so that `JSON.stringify` spells its numbers as they were: a long identifier does not lose its last digits. */
export function parseKeepingNumbers(text: string): unknown {
  return parseWithSource(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? rawJson(source) : value,
  );
}

/** True for a primitive that `parseKeepingNumbers` has kept as text. */
export const isRawJson = (JSON as unknown as { isRawJSON(value: unknown): boolean }).isRawJSON;

import Big from 'big.js';

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;
const rawJson = (JSON as unknown as { rawJSON(text: string): { rawJSON: string } }).rawJSON;
const isRaw = (JSON as unknown as { isRawJSON(value: unknown): value is { rawJSON: string } }).isRawJSON;

/** Where two values differ, as JSON texts; undefined: not there. */
export interface Difference {
  at: string;
  intended: string | undefined;
  found: string | undefined;
}

/** So many differences are enough to see what is wrong. */
const SHOWN = 20;

/**
 * JSON in which a number that a double cannot hold, such as 9007199254740993, keeps its digits (`JSON.rawJSON`), so that writing it again
 * changes nothing. Throws a SyntaxError if `text` is not JSON.
 */
export function parseExact(text: string): unknown {
  return parseWithSource(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && !isHeld(value, source) ? rawJson(source) : value,
  );
}

/** The same, with such numbers as texts: they can be put into a URL, and are the same when they come back from the database. */
export function parseKeepingDigits(text: string): unknown {
  return parseWithSource(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && !isHeld(value, source) ? source : value,
  );
}

function isHeld(value: number, source: string): boolean {
  return Number.isFinite(value) && new Big(String(value)).eq(source);
}

/** The JSON text of a value; a bigint is written with all its digits. Throws for what JSON would silently turn into null. */
export function stringifyExact(value: unknown): string {
  const text = JSON.stringify(value, (name, item: unknown) => {
    if (typeof item === 'bigint') return rawJson(String(item));
    if (typeof item === 'number' && !Number.isFinite(item))
      throw new Error(`"${name}" is ${item}, which JSON cannot say`);
    return item;
  });
  if (text === undefined) throw new Error('there is nothing to send: the body is undefined');
  return text;
}

/**
 * Where `found` is not as `intended`. Objects may have more than is intended; lists may not. Numbers are compared by their exact value: 82000
 * is 82000.00, and is neither 82000.000000000001 nor the text "82000".
 */
export function differences(intended: unknown, found: unknown, at = '$'): Difference[] {
  const one = parts(intended);
  const other = parts(found);
  if (one && other && one.isList === other.isList && !(one.isList && one.size !== other.size))
    return [...one.names]
      .flatMap((name) => differences(child(intended, name), child(found, name), `${at}.${name}`))
      .slice(0, SHOWN);
  if (!one && !other && isSame(intended, found)) return [];
  return [{ at, intended: shown(intended), found: shown(found) }];
}

/** What of `value` the fields of `shape` name: what can be compared with what was intended. */
export function project(shape: unknown, value: unknown): unknown {
  const named = parts(shape);
  if (!named || named.isList || parts(value)?.isList !== false) return value;
  return Object.fromEntries(
    named.names
      .filter((name) => child(value, name) !== undefined)
      .map((name) => [name, project(child(shape, name), child(value, name))]),
  );
}

/** Whether two values are the same JSON, whatever the order of their fields. */
export function isEqual(one: unknown, other: unknown): boolean {
  return differences(one, other).length === 0 && differences(other, one).length === 0;
}

function isSame(one: unknown, other: unknown): boolean {
  const [left, right] = [lexeme(one), lexeme(other)];
  return left === undefined || right === undefined ? one === other : new Big(left).eq(right);
}

function lexeme(value: unknown): string | undefined {
  if (isRaw(value)) return value.rawJSON;
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined;
}

function parts(value: unknown): { isList: boolean; names: string[]; size: number } | undefined {
  if (value === null || typeof value !== 'object' || isRaw(value)) return undefined;
  const names = Object.keys(value);
  return { isList: Array.isArray(value), names, size: names.length };
}

function child(value: unknown, name: string): unknown {
  const object = value as Record<string, unknown>;
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function shown(value: unknown): string | undefined {
  return value === undefined ? undefined : stringifyExact(value).slice(0, 200);
}

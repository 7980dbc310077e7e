/** Judges an input by the agent's schema: what is wrong with it, in words; empty when nothing is. */
export type ValidateInput = (input: unknown) => Promise<readonly string[]>;

/** Keys stand in an index, which holds at most about 2,700 bytes; no readable item comes near. */
const MAX_ITEM_BYTES = 500;

/** An item as the task will carry it: a string, or a whole number written without quotes. Undefined when it is neither. */
export function itemOf(value: unknown): string | undefined {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  return typeof value === 'string' ? value : undefined;
}

/** What is wrong with an item, or undefined. */
export function itemProblem(value: unknown): string | undefined {
  if (value === undefined) return 'no item';
  const item = itemOf(value);
  if (item === undefined) return `the item is ${JSON.stringify(value)}; it must be a text or a whole number`;
  if (item.trim() === '') return 'the item is empty';
  if (Buffer.byteLength(item) > MAX_ITEM_BYTES) return `the item is longer than ${MAX_ITEM_BYTES} bytes`;
  return unstorable(item, 'the item');
}

/** Why the database could not keep a value as jsonb, or undefined. `where` names the value. */
export function unstorable(value: unknown, where: string): string | undefined {
  if (typeof value === 'string') {
    if (value.includes('\0')) return `${where} holds a NUL character`;
    if (!value.isWellFormed()) return `${where} holds half of a surrogate pair, which is no character`;
  }
  if (typeof value === 'number' && !Number.isFinite(value)) return `${where} is a number out of range`;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [key, part] of Object.entries(value)) {
    const problem = unstorable(key, `a name in ${where}`) ?? unstorable(part, `${where}.${key}`);
    if (problem) return problem;
  }
  return undefined;
}

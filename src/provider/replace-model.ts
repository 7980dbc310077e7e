import { ownValues, parseObject, replaceSpans } from './own-values.ts';

/** The body of a request with its model's name replaced; every other byte stays as it is. Undefined where it names none to replace. */
export function replaceModel(body: Uint8Array, model: string): Uint8Array | undefined {
  const parsed = parseObject(body);
  if (parsed === undefined || typeof parsed.value.model !== 'string') return undefined;
  const { text } = parsed;
  return Buffer.from(replaceSpans(text, ownValues(text, ['model']), JSON.stringify(model)));
}

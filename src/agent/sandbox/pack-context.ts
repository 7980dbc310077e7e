import { createHash } from 'node:crypto';
import type { PackedContext } from './protocol.ts';

/** A text with the name under which it is cited. */
export interface Document {
  name: string;
  text: string;
}

/** What the variable `context` holds: one text, or documents with names. */
export type Context = string | readonly Document[];

/** The name under which a context that is one text is cited. */
export const TEXT_NAME = 'context';

/** The documents of a context. */
export function documentsOf(context: Context): readonly Document[] {
  return typeof context === 'string' ? [{ name: TEXT_NAME, text: context }] : context;
}

/** Lays the texts of a context into memory that threads share. */
export function packContext(context: Context): PackedContext {
  const documents = documentsOf(context);
  const texts = documents.map(({ text }) => Buffer.from(text));
  const ends: number[] = [];
  for (const text of texts) ends.push((ends.at(-1) ?? 0) + text.length);
  const bytes = new SharedArrayBuffer(ends.at(-1) ?? 0);
  const view = Buffer.from(bytes);
  const names = documents.map(({ name }) => name);
  const isText = typeof context === 'string';
  const hash = createHash('sha256').update(JSON.stringify([isText, names, ends]));
  for (const [index, text] of texts.entries()) {
    text.copy(view, (ends[index] ?? 0) - text.length);
    hash.update(text);
  }
  return { digest: hash.digest('hex'), isText, names, bytes, ends };
}

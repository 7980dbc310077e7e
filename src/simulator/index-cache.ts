import { hash } from 'node:crypto';
import { SentenceIndex } from './sentence-index.ts';

/** Characters of text kept indexed; an index takes some ten times its text, so this is about 100 MB at most. */
const MAX_CACHED_CHARACTERS = 8_000_000;

type Entry = { readonly index: SentenceIndex; readonly size: number };

/** Indexes by digest of their text, least recently used first: 400 questions on one document index it once. */
export class IndexCache {
  readonly #entries = new Map<string, Entry>();
  #size = 0;

  /** The index of `text`, built now or found. */
  of(text: string): SentenceIndex {
    const key = hash('sha256', text, 'base64');
    const entry = this.#entries.get(key) ?? this.#build(text);
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    this.#forgetOldest();
    return entry.index;
  }

  #build(text: string): Entry {
    this.#size += text.length;
    return { index: new SentenceIndex(text), size: text.length };
  }

  #forgetOldest(): void {
    for (const [key, entry] of this.#entries) {
      if (this.#size <= MAX_CACHED_CHARACTERS || this.#entries.size === 1) return;
      this.#entries.delete(key);
      this.#size -= entry.size;
    }
  }
}

import type { PackedContext } from './protocol.ts';

interface Passage {
  document: string;
  line: number;
  text: string;
}

/** Marks left over when letters are taken apart from their accents. */
const MARKS = /\p{M}+/gu;
const WORD = /[\p{L}\p{N}]+/gu;

/** The texts of one context in a sandbox thread, shared by all sandboxes that have the same. */
export class GuestContext {
  readonly names: string[];
  readonly isText: boolean;
  readonly chars: number;
  readonly #packed: PackedContext;
  readonly #texts: string[] = [];
  #passages: { passage: Passage; folded: string }[] | undefined;

  constructor(packed: PackedContext) {
    this.#packed = packed;
    this.names = packed.names;
    this.isText = packed.isText;
    this.chars = packed.bytes.byteLength;
  }

  /** The text of the document at this place; empty where there is none. */
  text(index: number): string {
    const { bytes, ends } = this.#packed;
    const known = this.#texts[index];
    if (known !== undefined) return known;
    const from = index === 0 ? 0 : (ends[index - 1] ?? bytes.byteLength);
    const text = Buffer.from(bytes, from, (ends[index] ?? from) - from).toString();
    this.#texts[index] = text;
    return text;
  }

  /**
   * The lines that hold most of the words, whole or as the beginning of a longer one, without case and accents; rarer words weigh more.
   * Among equals the earlier comes first.
   */
  search(wanted: string[], limit: number): Passage[] {
    const passages = this.#indexed();
    const holders = wanted.map((word) =>
      passages.flatMap(({ folded }, index) => (hasWord(folded, word) ? [index] : [])),
    );
    const scores = new Map<number, number>();
    for (const found of holders) {
      const weight = Math.log(1 + passages.length / (1 + found.length));
      for (const index of found) scores.set(index, (scores.get(index) ?? 0) + weight);
    }
    return [...scores]
      .sort(([a, scoreA], [b, scoreB]) => scoreB - scoreA || a - b)
      .slice(0, limit)
      .flatMap(([index]) => passages[index]?.passage ?? []);
  }

  #indexed() {
    this.#passages ??= this.names.flatMap((document, index) =>
      this.text(index)
        .split('\n')
        .flatMap((text, line) =>
          text.trim() === '' ? [] : [{ passage: { document, line: line + 1, text }, folded: ` ${fold(text)}` }],
        ),
    );
    return this.#passages;
  }
}

/** The words of a search, folded, each once. */
export function wordsOf(text: string): string[] {
  return [...new Set(fold(text).match(WORD))];
}

function hasWord(folded: string, word: string): boolean {
  for (let at = folded.indexOf(word); at > 0; at = folded.indexOf(word, at + 1))
    if (!/[\p{L}\p{N}]/u.test(folded[at - 1] ?? '')) return true;
  return false;
}

/** Lower case without accents. */
export function fold(text: string): string {
  return text.normalize('NFD').replace(MARKS, '').toLowerCase();
}

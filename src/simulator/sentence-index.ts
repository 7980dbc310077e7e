import { wordsOf } from './words.ts';

/** Term saturation and length normalisation of BM25, at their usual values. */
const SATURATION = 1.2;
const LENGTH_WEIGHT = 0.75;

/** A second sentence is quoted only when it fits the question almost as well as the first. */
const NEAR_TIE = 0.95;

type Posting = { readonly sentence: number; readonly count: number };

/**
 * Sentences end at punctuation followed by a capital, or at a line break; "art. 5" and "e.g. this" stay whole. Lines are
 * split off first: a pattern with spaces around a line break would take quadratic time on long runs of spaces.
 */
const SENTENCE_END = /(?<=[.!?…]["”»)]?)\s+(?=["“«(]?\p{Lu})/u;

/** The sentences of one text, indexed by word, so that a question looks only at sentences that share a word with it. */
export class SentenceIndex {
  readonly #sentences: readonly string[];
  readonly #lengths: readonly number[];
  readonly #postings = new Map<string, Posting[]>();
  readonly #averageLength: number;

  constructor(text: string) {
    this.#sentences = text
      .split('\n')
      .flatMap((line) => line.trim().split(SENTENCE_END))
      .filter((sentence) => sentence !== '');
    this.#lengths = this.#sentences.map((sentence, number) => this.#add(wordsOf(sentence), number));
    this.#averageLength = Math.max(1, this.#lengths.reduce((sum, length) => sum + length, 0) / this.#lengths.length);
  }

  /** The one or two sentences that fit `question` best, in reading order; undefined if none shares a word with it. */
  bestFor(question: string): string | undefined {
    const ranked = [...this.#scores(question)].sort(([a, scoreA], [b, scoreB]) => scoreB - scoreA || a - b);
    const [first, second] = ranked;
    if (!first) return undefined;
    const chosen =
      second && second[1] >= first[1] * NEAR_TIE ? [first[0], second[0]].sort((a, b) => a - b) : [first[0]];
    return chosen.map((number) => this.#sentences[number]).join(' ');
  }

  #add(words: readonly string[], sentence: number): number {
    const counts = new Map<string, number>();
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
    for (const [word, count] of counts) {
      const postings = this.#postings.get(word);
      if (postings) postings.push({ sentence, count });
      else this.#postings.set(word, [{ sentence, count }]);
    }
    return words.length;
  }

  #scores(question: string): Map<number, number> {
    const scores = new Map<number, number>();
    for (const word of new Set(wordsOf(question))) {
      const postings = this.#postings.get(word) ?? [];
      const rarity = Math.log(1 + (this.#sentences.length - postings.length + 0.5) / (postings.length + 0.5));
      for (const { sentence, count } of postings) {
        const relativeLength = (this.#lengths[sentence] ?? 0) / this.#averageLength;
        const damping = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * relativeLength);
        const gain = (rarity * count * (SATURATION + 1)) / (count + damping);
        scores.set(sentence, (scores.get(sentence) ?? 0) + gain);
      }
    }
    return scores;
  }
}

/** What a turn has printed: its beginning and its end, with a note of how much of the middle was cut. */
export class TurnOutput {
  readonly #room: number;
  #head = '';
  #tail = '';
  #cut = 0;

  /** `maxChars` is the most that is kept. */
  constructor(maxChars: number) {
    this.#room = Math.ceil(maxChars / 2);
  }

  /** Takes a piece of which `skipped` characters between `head` and `tail` were left out already. */
  write(head: string, skipped = 0, tail = ''): void {
    this.#add(head);
    if (skipped === 0) return;
    this.#cut += skipped + this.#tail.length;
    this.#tail = '';
    this.#add(tail);
  }

  #add(text: string): void {
    const taken = this.#cut === 0 && this.#tail === '' ? Math.min(text.length, this.#room - this.#head.length) : 0;
    this.#head += text.slice(0, taken);
    const tail = this.#tail + text.slice(taken);
    const excess = Math.max(0, tail.length - this.#room);
    this.#cut += excess;
    this.#tail = tail.slice(excess);
  }

  toString(): string {
    if (this.#cut === 0) return this.#head + this.#tail;
    return `${this.#head}\n[… ${this.#cut} characters of the output were cut here …]\n${this.#tail}`;
  }
}

import { MadrugadaError } from '../errors.ts';

const SHOWN = 20;

/** Collects what is wrong with the lines of a file: the first 20 in words, the rest as a count. */
export class BadLines {
  readonly #shown: string[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(line: number, item: string | undefined, why: string): void {
    this.#count++;
    if (this.#shown.length < SHOWN) {
      this.#shown.push(item ? `line ${line} (item ${item}): ${why}` : `line ${line}: ${why}`);
    }
  }

  /** Throws a MadrugadaError that lists them, if there are any. `name` is the file's. */
  throwIfAny(name: string): void {
    if (this.#count === 0) return;
    const hidden = this.#count - this.#shown.length;
    const lines = [
      `${name}: ${this.#count === 1 ? '1 error' : `${this.#count} errors`}; nothing was loaded`,
      ...this.#shown.map((text) => `  ${text}`),
      ...(hidden > 0 ? [`  and ${hidden} more`] : []),
    ];
    throw new MadrugadaError(lines.join('\n'));
  }
}

const PAGE_BYTES = 4096;
const ZEROS = Buffer.alloc(PAGE_BYTES);
/** After so much emptiness nothing more is looked for: the stack, the only gap in what is used, has 5 MB. */
const LARGEST_GAP_BYTES = 8 * 1024 * 1024;

/**
 * What stood in a memory at one moment, to be put back later. Kept are the pages with something in them, a tenth of the used part, most of
 * which is a stack.
 */
export class MemoryImage {
  readonly #pages = new Map<number, Buffer>();
  #end = 0;

  constructor(memory: ArrayBuffer) {
    for (let at = 0; at < memory.byteLength && at - this.#end < LARGEST_GAP_BYTES; at += PAGE_BYTES) {
      const page = Buffer.from(memory, at, PAGE_BYTES);
      if (page.equals(ZEROS)) continue;
      this.#pages.set(at, Buffer.from(page));
      this.#end = at + PAGE_BYTES;
    }
  }

  /**
   * Makes the memory what it was, up to the end of what was used then. What lies behind was handed out by the allocator later, and nobody
   * reads it before writing to it. Pages that are as they were are not touched, which would make them take room.
   */
  restore(memory: ArrayBuffer): void {
    for (let at = 0; at < this.#end; at += PAGE_BYTES) {
      const page = Buffer.from(memory, at, PAGE_BYTES);
      const image = this.#pages.get(at) ?? ZEROS;
      if (!page.equals(image)) image.copy(page);
    }
  }
}

const KEPT = 1_000;

/** What this process remembers of its latest doings, by key. Whatever relies on it must do without after a crash. */
export class Recent<V> {
  readonly #entries = new Map<string, V>();

  get(key: string): V | undefined {
    return this.#entries.get(key);
  }

  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= KEPT) break;
      this.#entries.delete(oldest);
    }
  }
}

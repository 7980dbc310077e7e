/** Lets idle slots wait for work: until they are woken, or a while has passed. */
export class WakeUp {
  readonly #sleepers = new Set<() => void>();
  #calls = 0;

  /** How often there was a call so far: what a sleeper passes, so that a call that came before it lay down is not slept through. */
  get calls(): number {
    return this.#calls;
  }

  /** Wakes everybody who waits. */
  wakeAll(): void {
    this.#calls += 1;
    for (const wake of [...this.#sleepers]) wake();
  }

  /** Waits `ms` milliseconds, or until the next call after the first `heard`. */
  wait(ms: number, heard: number): Promise<void> {
    if (this.#calls > heard) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#sleepers.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      this.#sleepers.add(wake);
    });
  }
}

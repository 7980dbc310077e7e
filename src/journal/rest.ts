/** Notices when nothing has happened for a while: no call, no step, no delivery (rule R4). */
export class Rest {
  readonly #timer: NodeJS.Timeout;

  constructor(limitMs: number, whenAtRest: () => void) {
    this.#timer = setTimeout(() => {
      this.#timer.refresh(); // what is not at rest now may be later
      whenAtRest();
    }, limitMs);
    this.#timer.unref();
  }

  activity(): void {
    this.#timer.refresh();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

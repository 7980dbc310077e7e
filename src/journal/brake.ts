/**
 * The brake of one run. Held, no request begins to be written any more; cut off, those in flight are broken off as well, and whether they
 * were charged is then in doubt.
 */
export class Brake {
  readonly #inFlight = new Set<(reason: string) => void>();
  #held: string | undefined;

  /** Why nothing may be sent any more; undefined: it may. */
  get held(): string | undefined {
    return this.#held;
  }

  hold(reason: string): void {
    this.#held ??= reason;
  }

  cutOff(reason: string): void {
    this.hold(reason);
    for (const breakOff of [...this.#inFlight]) breakOff(reason);
  }

  /** Calls `breakOff` when it is cut off. Returns what makes it forget that. */
  whenCutOff(breakOff: (reason: string) => void): () => void {
    this.#inFlight.add(breakOff);
    return () => this.#inFlight.delete(breakOff);
  }
}

/** Hands a result to the code: at once, or when the promise it returns has settled. */
type Deliver = () => void | Promise<void>;

interface Entry {
  completedNo: number;
  /** Undefined until the code has asked for the result. */
  deliver: Deliver | undefined;
  /** Does not hold up what comes after it. */
  passable: boolean;
  /** May be released before the calls that were issued before it: a stream's first bytes were seen before its completion. */
  gated: boolean;
}

/**
 * Releases results to the agent's code in the order in which they completed the first time, live ones after recorded ones. Between two
 * releases the code gets a turn, and a result waits until every call that was issued before it the first time has been issued again, so
 * that code which races calls sees the same race.
 */
export class ReleaseQueue {
  readonly #entries: Entry[] = [];
  readonly #mayRelease: (completedNo: number) => boolean;
  readonly #onRelease: () => void;
  #lastNo = 0;
  #scheduled = false;

  constructor(mayRelease: (completedNo: number) => boolean, onRelease: () => void) {
    this.#mayRelease = mayRelease;
    this.#onRelease = onRelease;
  }

  /** The place of the last result the code has been given. */
  get lastNo(): number {
    return this.#lastNo;
  }

  /** Keeps the place of a recorded result for which the code has not asked yet. */
  expect(completedNo: number, passable: boolean, gated: boolean): void {
    this.#insert({ completedNo, deliver: undefined, passable, gated });
  }

  /** The code has asked for the recorded result at this place. One that was passed already is handed over at once. */
  request(completedNo: number, deliver: Deliver): void {
    const entry = this.#entries.find((entry) => entry.completedNo === completedNo);
    if (entry === undefined) {
      void deliver();
      return;
    }
    entry.deliver = deliver;
    this.pump();
  }

  /** A live result takes its place at the end. */
  add(completedNo: number, deliver: Deliver): void {
    this.#insert({ completedNo, deliver, passable: false, gated: false });
    this.pump();
  }

  /** Nobody will ask for the result at this place in its turn. */
  skip(completedNo: number): void {
    const index = this.#entries.findIndex((entry) => entry.completedNo === completedNo);
    if (index !== -1) this.#entries.splice(index, 1);
    this.pump();
  }

  /** Releases what is due; to be called whenever the code has issued something. */
  pump(): void {
    if (this.#scheduled) return;
    while (this.#entries[0]?.passable && this.#entries[0].deliver === undefined) this.#entries.shift();
    const [first] = this.#entries;
    if (first?.deliver === undefined || (first.gated && !this.#mayRelease(first.completedNo))) return;
    this.#entries.shift();
    this.#lastNo = Math.max(this.#lastNo, first.completedNo);
    this.#onRelease();
    const delivered = first.deliver();
    if (this.#entries.length === 0 && delivered === undefined) return;
    this.#scheduled = true;
    if (delivered === undefined) this.#pumpNext();
    else delivered.finally(() => this.#pumpNext()).catch(() => undefined); // whoever delivers looks after its failure
  }

  /** After the code has had a turn. */
  #pumpNext(): void {
    setImmediate(() => {
      this.#scheduled = false;
      this.pump();
    });
  }

  #insert(entry: Entry): void {
    const after = this.#entries.findLastIndex((other) => other.completedNo < entry.completedNo);
    this.#entries.splice(after + 1, 0, entry);
  }
}

/** What became of a dispatch: the response as it was produced, whether or not it reached the client. */
export type DispatchResult = {
  readonly state: 'answered' | 'refused';
  readonly status: number;
  readonly contentType: string;
  readonly requestId: string;
  readonly body: Buffer;
  /** US dollars as an exact decimal; "0" for a refusal. */
  readonly costUsd: string;
};

type Known = DispatchResult | 'in-progress' | 'not-received' | 'forgotten';

/** Enough for about a hundred thousand ordinary answers. */
const MOST_BODY_BYTES = 256 * 1024 * 1024;

/**
 * What is known of every tagged dispatch, for the look-up. Bodies are kept up to a total size, the oldest dropped
 * first; tags are never dropped, because "not received" must stay true of every tag it was said of. A dispatch whose
 * body is gone, or that only the bill remembers from before a restart, is forgotten: nothing can be said of it.
 */
export class DispatchRecords {
  readonly #known = new Map<string, Known>();
  readonly #kept = new Map<string, number>();
  readonly #mostBytes: number;
  #bytes = 0;

  /** `billed` are the tags of charges made before this process started. */
  constructor(billed: Iterable<string> = [], mostBytes = MOST_BODY_BYTES) {
    for (const tag of billed) this.#known.set(tag, 'forgotten');
    this.#mostBytes = mostBytes;
  }

  /** Notes that a request has arrived whole. False if its tag was looked up before and must not be answered now. */
  arrive(tag: string): boolean {
    const known = this.#known.get(tag);
    if (known === 'not-received') return false;
    // A tag that comes a second time must not hide what was charged for the first.
    if (known === undefined || (typeof known === 'object' && known.state === 'refused')) {
      this.#drop(tag);
      this.#known.set(tag, 'in-progress');
    }
    return true;
  }

  /** Keeps the response of an arrived dispatch, unless the tag has been charged before. */
  finish(tag: string, result: DispatchResult): void {
    if (this.#known.get(tag) !== 'in-progress') return;
    this.#known.set(tag, result);
    this.#kept.set(tag, result.body.length);
    this.#bytes += result.body.length;
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes <= this.#mostBytes) break;
      this.forget(oldest);
    }
  }

  /** The arrived dispatch was kept from the provider after all, by a proxy before it: nothing is known of it. */
  keptAway(tag: string): void {
    if (this.#known.get(tag) === 'in-progress') this.#known.delete(tag);
  }

  /** Nothing certain can be said of `tag` any more. */
  forget(tag: string): void {
    this.#drop(tag);
    this.#known.set(tag, 'forgotten');
  }

  /** What is known of `tag`. Asking for one that never arrived revokes it: it is refused should it still come. */
  lookUp(tag: string): Known {
    const known = this.#known.get(tag);
    if (known === undefined) this.#known.set(tag, 'not-received');
    return known ?? 'not-received';
  }

  #drop(tag: string): void {
    this.#bytes -= this.#kept.get(tag) ?? 0;
    this.#kept.delete(tag);
  }
}

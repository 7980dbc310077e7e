import type { RecordedResponse } from './load-journal.ts';

/**
 * One time the agent's code asked for a call: the promise it holds. A call may be issued again after an abort or a failure; each issue ends
 * once, by a response, a stream, or the code's own abort.
 */
export class Issue {
  readonly promise: Promise<Response>;
  /** 1 for the first issue of its call. */
  readonly ordinal: number;
  #resolve: (response: Response) => void = () => undefined;
  #reject: (reason: unknown) => void = () => undefined;
  #stream: ReadableStreamDefaultController<Uint8Array> | undefined;
  #pushedBytes = 0;
  #break: TypeError | undefined;
  #state: 'open' | 'delivered' | 'aborted' = 'open';
  readonly #onAbort: (issue: Issue) => void;
  readonly #signal: AbortSignal | undefined;
  readonly #abortListener = () => this.#abort(this.#signal?.reason);

  /** `signal` is the code's own; `over` aborts with the end of the run, after which a client's timer must not hold on to all this. */
  constructor(ordinal: number, signal: AbortSignal | undefined, over: AbortSignal, onAbort: (issue: Issue) => void) {
    this.ordinal = ordinal;
    this.#onAbort = onAbort;
    this.#signal = signal;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    signal?.addEventListener('abort', this.#abortListener, { once: true, signal: over });
  }

  get isOpen(): boolean {
    return this.#state === 'open';
  }

  get isStreaming(): boolean {
    return this.#stream !== undefined;
  }

  /** Hands the code a whole response. */
  deliver(response: Response): void {
    if (this.#state !== 'open') return;
    this.#end('delivered');
    this.#resolve(response);
  }

  /** Hands the code a response whose body is still arriving. */
  openStream(status: number, headers: Record<string, string>): void {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#stream = controller;
      },
      pull: (controller) => {
        if (this.#break) controller.error(this.#break);
      },
      cancel: (reason) => this.#abort(reason),
    });
    this.#resolve(new Response(body, { status, headers }));
  }

  pushChunk(chunk: Uint8Array): void {
    if (this.#state !== 'open') return;
    this.#pushedBytes += chunk.length;
    this.#stream?.enqueue(chunk);
  }

  /** Pushes what of the whole body has not been pushed yet, and ends the stream. */
  finishStream(body: Uint8Array): void {
    this.pushChunk(body.subarray(this.#pushedBytes));
    this.#closeStream();
  }

  #closeStream(): void {
    if (this.#state !== 'open') return;
    this.#end('delivered');
    this.#stream?.close();
  }

  /** The stream broke off: the code gets an error in the middle of its body, once it has read what came before. */
  breakStream(message: string): void {
    if (this.#state !== 'open') return;
    this.#end('delivered');
    this.#break = new TypeError(message);
    if ((this.#stream?.desiredSize ?? 0) > 0) this.#stream?.error(this.#break); // an error drops what is queued
  }

  #abort(reason: unknown): void {
    if (this.#state !== 'open') return;
    this.#end('aborted');
    const error = reason ?? new DOMException('This operation was aborted', 'AbortError');
    this.#stream?.error(error);
    this.#reject(error);
    this.#onAbort(this);
  }

  #end(state: 'delivered' | 'aborted'): void {
    this.#state = state;
    this.#signal?.removeEventListener('abort', this.#abortListener);
  }
}

/** What a call cost, in dollars, as the journal has it: the same on replay, whatever prices have become. Streams go without. */
export const COST_HEADER = 'x-madrugada-cost-usd';

/** The response that the code gets for a recorded, or just completed, result. */
export function responseOf(result: RecordedResponse, body: Uint8Array, failed: boolean): Response {
  if (!failed)
    return new Response(noBody(result.status) ? null : Buffer.from(body), {
      status: result.status,
      headers: headersWithCost(result),
    });
  if (isFinalForSdks(result.status))
    return new Response(Buffer.from(body), {
      status: result.status,
      headers: { ...result.headers, 'x-should-retry': 'false' },
    });
  return refusal('madrugada_refused', result.error ?? `HTTP ${result.status}`);
}

/** A header of this name that the provider has sent says nothing of ours. */
function headersWithCost({ headers, costUsd }: RecordedResponse): Record<string, string> {
  const { [COST_HEADER]: _theirs, ...others } = headers;
  return costUsd === undefined ? others : { ...others, [COST_HEADER]: costUsd };
}

/**
 * A failure in the provider's own error format that no SDK retries: all retrying is the journal's, so that every dispatch has a row.
 */
export function refusal(type: string, message: string): Response {
  return new Response(JSON.stringify({ type: 'error', error: { type, message } }), {
    status: 400,
    headers: { 'content-type': 'application/json', 'x-should-retry': 'false' },
  });
}

/** Statuses that every SDK takes as final; 408, 409, 429 and 5xx are retried by some whatever the headers say. */
function isFinalForSdks(status: number): boolean {
  return status >= 400 && status < 500 && ![408, 409, 429].includes(status);
}

function noBody(status: number): boolean {
  return [204, 205, 304].includes(status);
}

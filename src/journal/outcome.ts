import { EventStreamReader } from '../provider/event-stream.ts';
import type { PriceBook } from '../provider/prices.ts';
import { classifyResponse, classifyStreamError, type Refusal } from '../provider/refusal.ts';
import { type AnswerFacts, factsOfJson } from '../provider/usage.ts';
import type { JournaledRequest } from './request.ts';
import type { OutcomeKind, OutcomeRow } from './rows.ts';
import type { ResponseSink, SendEnd } from './send.ts';

/** A response as it arrives, kept whole, and read on the way for what ends, prices and refuses it. */
export class Reception implements ResponseSink {
  status = 0;
  headers: Record<string, string> = {};
  readonly #chunks: Buffer[] = [];
  #stream: EventStreamReader | undefined;
  readonly #onStreamChunk: (chunk: Buffer, reception: Reception) => void;

  /** `onStreamChunk` sees every chunk of an event stream, after it was read. */
  constructor(onStreamChunk: (chunk: Buffer, reception: Reception) => void) {
    this.#onStreamChunk = onStreamChunk;
  }

  onHead(status: number, headers: Record<string, string>): void {
    this.status = status;
    this.headers = headers;
    if (status === 200 && headers['content-type']?.startsWith('text/event-stream'))
      this.#stream = new EventStreamReader();
  }

  onChunk(chunk: Buffer): void {
    this.#chunks.push(chunk);
    if (this.#stream === undefined) return;
    this.#stream.push(chunk);
    this.#onStreamChunk(chunk, this);
  }

  get body(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  get stream(): EventStreamReader | undefined {
    return this.#stream;
  }
}

/** How a dispatch ended, as it will be journaled; `refusal` says what to do about one that is no answer. */
export interface Ending {
  kind: OutcomeKind;
  error: string | undefined;
  refusal: Refusal | undefined;
  /** What the other side says it cost, of a recovered answer: counts where the model has no known price. */
  statedCostUsd?: string | undefined;
}

/** True of what answers a call, and costs what it costs. */
export function isAnswer(kind: OutcomeKind): boolean {
  return kind === 'charged' || kind === 'recovered';
}

/** Decides what a finished exchange was. */
export function endingOf(end: SendEnd, reception: Reception): Ending {
  if (end.kind === 'not sent') return { kind: 'not_sent', error: end.error, refusal: transient(end.error) };
  const { status, headers, stream } = reception;
  // a stream whose final event has come is whole, whatever then becomes of its connection
  if (end.kind === 'broken' && !stream?.isComplete)
    return { kind: 'unknown', error: end.error, refusal: transient(end.error) };
  if (status < 200 || status >= 300) {
    const refusal = classifyResponse(status, headers, reception.body.toString());
    return { kind: 'refused', error: refusal.message, refusal };
  }
  if (stream?.error !== undefined) {
    const refusal = classifyStreamError(stream.error);
    // what was generated before the error may have been charged
    return { kind: stream.hasBegun ? 'unknown' : 'refused', error: refusal.message, refusal };
  }
  if (stream && !stream.isComplete) {
    const error = 'the stream ended before its final event';
    return { kind: 'unknown', error, refusal: transient(error) };
  }
  return { kind: 'charged', error: undefined, refusal: undefined };
}

function transient(message: string): Refusal {
  return { kind: 'transient', message, retryAfterMs: undefined };
}

/** The parts of an outcome row that come from the response. */
export function outcomeFields(
  ending: Ending,
  reception: Reception,
  request: Pick<JournaledRequest, 'method' | 'url'>,
  model: string | undefined,
  prices: PriceBook,
): Omit<OutcomeRow, 'lease' | 'seq' | 'dispatch' | 'shown'> {
  const body = reception.body;
  const facts = reception.stream?.facts ?? factsOfJson(reception.status === 0 ? '' : body.toString());
  return {
    kind: ending.kind,
    status: reception.status || undefined,
    error: ending.error,
    providerRequestId: reception.headers['request-id'] ?? reception.headers['x-request-id'],
    messageId: facts.messageId,
    responseHeaders: reception.headers,
    response: body,
    inputTokens: facts.usage?.inputTokens,
    outputTokens: facts.usage?.outputTokens,
    cacheReadTokens: facts.usage?.cacheReadTokens,
    cacheWrite5mTokens: facts.usage?.cacheWrite5mTokens,
    cacheWrite1hTokens: facts.usage?.cacheWrite1hTokens,
    costUsd: isAnswer(ending.kind) ? (costOf(facts, request, model, prices) ?? ending.statedCostUsd) : undefined,
  };
}

/** Free requests cost nothing; a paid one without a known price has no cost, rather than none to pay. */
function costOf(
  facts: AnswerFacts,
  request: Pick<JournaledRequest, 'method' | 'url'>,
  model: string | undefined,
  prices: PriceBook,
): string | undefined {
  if (request.method === 'GET' || request.url.pathname.endsWith('/count_tokens')) return '0';
  const priced = facts.model ?? model;
  return facts.usage && priced ? prices.costOf(priced, facts.usage, new Date())?.toFixed() : undefined;
}

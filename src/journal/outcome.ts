import { EventStreamReader } from '../provider/event-stream.ts';
import type { PriceBook } from '../provider/prices.ts';
import { classify, type DispatchEnd, isEventStream } from '../provider/refusal.ts';
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
    if (status === 200 && isEventStream(headers)) this.#stream = new EventStreamReader();
  }

  onChunk(chunk: Buffer): boolean {
    this.#chunks.push(chunk);
    if (this.#stream === undefined) return false;
    this.#stream.push(chunk);
    this.#onStreamChunk(chunk, this);
    return this.#stream.isOver;
  }

  get body(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  get stream(): EventStreamReader | undefined {
    return this.#stream;
  }
}

/** How a dispatch ended: as its exchange shows, or answered after all, as a look-up has proved, with what the other side says it cost. */
export type Ending = DispatchEnd | { kind: 'recovered'; statedCostUsd: string | undefined };

/** True of what answers a call, and costs what it costs. */
export function isAnswer({ kind }: Ending): boolean {
  return kind === 'completed' || kind === 'recovered';
}

/** Decides what a finished exchange was. */
export function endingOf(
  end: SendEnd,
  request: Pick<JournaledRequest, 'method' | 'url'>,
  reception: Reception,
): DispatchEnd {
  if (end.kind === 'not sent') return { kind: 'not sent', message: end.error };
  const { status, headers, body, stream } = reception;
  const { method, url } = request;
  const brokenBy = end.kind === 'broken' ? end.error : undefined;
  return classify({ method, path: url.pathname, status, headers, body, stream, brokenBy });
}

/** How an ending is journaled. What may have been charged stays in doubt. */
export function outcomeKindOf(ending: Ending): OutcomeKind {
  switch (ending.kind) {
    case 'completed':
      return 'charged';
    case 'not sent':
      return 'not_sent';
    case 'unknown':
    case 'recovered':
      return ending.kind;
    default:
      return ending.charge === 'possible' ? 'unknown' : 'refused';
  }
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
    kind: outcomeKindOf(ending),
    status: reception.status || undefined,
    error: 'message' in ending ? ending.message : undefined,
    providerRequestId: reception.headers['request-id'] ?? reception.headers['x-request-id'],
    messageId: facts.messageId,
    responseHeaders: reception.headers,
    response: body,
    inputTokens: facts.usage?.inputTokens,
    outputTokens: facts.usage?.outputTokens,
    cacheReadTokens: facts.usage?.cacheReadTokens,
    cacheWrite5mTokens: facts.usage?.cacheWrite5mTokens,
    cacheWrite1hTokens: facts.usage?.cacheWrite1hTokens,
    costUsd: isAnswer(ending) ? (costOf(facts, request, model, prices) ?? statedCostOf(ending)) : undefined,
  };
}

/** Counts where the model has no known price. */
function statedCostOf(ending: Ending): string | undefined {
  return ending.kind === 'recovered' ? ending.statedCostUsd : undefined;
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

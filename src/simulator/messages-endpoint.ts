import { hash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { type Answer, answerAsEvents, answerAsJson, cutToTokens } from './answer-body.ts';
import { answerText } from './answer-text.ts';
import type { ArrivalsFile } from './arrivals-file.ts';
import type { BillFile } from './bill-file.ts';
import { deliver, errorReply, sendWhole } from './delivery.ts';
import type { DispatchRecords, DispatchResult } from './dispatch-records.ts';
import { type ChargedFault, type Fault, isCharged } from './faults.ts';
import { errorBody, newId, sendError } from './http-replies.ts';
import { IndexCache } from './index-cache.ts';
import { type MessageRequest, parseMessageRequest } from './message-request.ts';
import { type Plan, planFor, type Temper } from './plan.ts';
import { chargeFor } from './price-list.ts';
import { proxyPage } from './proxy-page.ts';
import { RATE_LIMITED, type Refusal } from './refusals.ts';
import { JSON_TYPE, type Reply, STREAM_TYPE } from './reply.ts';
import { RequestLimits } from './request-limit.ts';
import { retryAfterHeader } from './retry-after.ts';
import { isRootRequest, rootText } from './root-role.ts';
import { parseWishes } from './simulate-header.ts';

/** What the endpoint writes. */
export type Books = {
  readonly bill: BillFile;
  readonly records: DispatchRecords;
  readonly arrivals: ArrivalsFile | undefined;
};

/** A request that has arrived whole. */
type Call = {
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly tag: string | null;
  /** ISO 8601 in UTC. */
  readonly receivedAt: string;
  readonly digest: string;
};

/** `POST /v1/messages`: produces the answer, charges for it, and only then starts to send it. */
export class MessagesEndpoint {
  readonly #books: Books;
  readonly #temper: Temper;
  readonly #stopping: AbortSignal;
  readonly #indexes = new IndexCache();
  readonly #limits: RequestLimits | undefined;
  readonly #seen = new Map<string, number>();

  /** `stopping` abandons answers that are not produced yet; they are not charged. */
  constructor(books: Books, temper: Temper, stopping: AbortSignal) {
    const { requestsPerMinute, burst } = temper;
    this.#books = books;
    this.#temper = temper;
    this.#limits = requestsPerMinute === undefined ? undefined : new RequestLimits(requestsPerMinute, burst);
    this.#stopping = stopping;
  }

  /** Answers one request whose body has arrived whole. Rejects if the bill cannot be written. */
  async handle(request: IncomingMessage, response: ServerResponse, requestId: string, body: Buffer): Promise<void> {
    const call: Call = {
      response,
      requestId,
      tag: headerOf(request, 'x-madrugada-tag') || null,
      receivedAt: new Date().toISOString(),
      digest: hash('sha256', body, 'hex'),
    };
    const parsed = parseMessageRequest(body);
    const model = typeof parsed === 'string' ? '' : parsed.model;
    if (call.tag !== null && !this.#books.records.arrive(call.tag)) {
      const message = `Dispatch ${call.tag} was looked up before it arrived and is revoked`;
      this.#noteArrival(call, model, 'revoked');
      return sendError(response, requestId, 409, 'dispatch_revoked', message);
    }
    const overLimit = this.#limits?.admit(model, response);
    if (overLimit !== undefined) {
      this.#noteArrival(call, model, 'over the limit');
      return this.#refuse(call, RATE_LIMITED, { 'retry-after': String(overLimit) });
    }
    const wishes = parseWishes(headerOf(request, 'x-simulate'));
    if (typeof parsed === 'string' || typeof wishes === 'string') {
      const message = typeof parsed === 'string' ? parsed : String(wishes);
      this.#noteArrival(call, model, 'malformed');
      return this.#refuse(call, { status: 400, type: 'invalid_request_error', message });
    }
    const plan = planFor(wishes, this.#temper, call.digest, this.#countSeen(call.digest));
    this.#noteArrival(call, model, plan.fault?.name ?? 'answered');
    if (plan.fault && !isCharged(plan.fault)) return this.#turnAway(call, parsed, plan, plan.fault);
    if (await this.#wait(plan.latencyMs)) await this.#answer(call, parsed, plan, plan.fault);
    else response.destroy();
  }

  #noteArrival({ receivedAt, tag }: Call, model: string, fate: string): void {
    this.#books.arrivals?.append({ received_at: receivedAt, tag, model, fate });
  }

  /** Sends what comes in place of an answer that is never produced. */
  async #turnAway(
    call: Call,
    request: MessageRequest,
    { retryAfter }: Plan,
    fault: Exclude<Fault, ChargedFault>,
  ): Promise<void> {
    if (fault.kind === 'refuse') return this.#refuse(call, fault.refusal, retryAfter && retryAfterHeader(retryAfter));
    if (fault.kind === 'page') {
      if (call.tag !== null) this.#books.records.keptAway(call.tag);
      return sendWhole(call.response, call.requestId, proxyPage(fault.status));
    }
    const reply = errorReply(call.requestId, typeOf(request), fault.type, undefined);
    this.#keep(call, { state: 'refused', ...reply, costUsd: '0' });
    await sendWhole(call.response, call.requestId, reply);
  }

  #refuse(call: Call, { status, type, message }: Refusal, headers?: Record<string, string>): void {
    const { response, requestId } = call;
    const body = Buffer.from(errorBody(requestId, type, message));
    this.#keep(call, { state: 'refused', status, contentType: JSON_TYPE, body, costUsd: '0' });
    sendError(response, requestId, status, type, message, headers);
  }

  async #answer(call: Call, request: MessageRequest, plan: Plan, fault: ChargedFault | undefined): Promise<void> {
    const answer = this.#produce(request, call.digest, plan);
    await this.#charge(answer, call);
    const body = Buffer.from(request.stream ? answerAsEvents(answer) : answerAsJson(answer));
    const reply: Reply = { status: 200, contentType: typeOf(request), body };
    this.#keep(call, { state: 'answered', ...reply, costUsd: answer.charge.costUsd });
    await deliver(call.response, call.requestId, reply, fault);
  }

  #keep({ tag, requestId }: Call, result: Omit<DispatchResult, 'requestId'>): void {
    if (tag !== null) this.#books.records.finish(tag, { ...result, requestId });
  }

  /** How often the same body came before. */
  #countSeen(digest: string): number {
    const seen = this.#seen.get(digest) ?? 0;
    this.#seen.set(digest, seen + 1);
    return seen;
  }

  /** True once the time has passed; false at once if the server stops meanwhile. */
  async #wait(latencyMs: number): Promise<boolean> {
    if (latencyMs === 0) return true;
    return setTimeout(latencyMs, true, { signal: this.#stopping }).catch(() => false);
  }

  #produce(request: MessageRequest, digest: string, plan: Plan): Answer {
    const { model, max_tokens: maxTokens } = request;
    const whole = this.#textFor(request, digest, plan.answerBytes);
    // a wish for so many bytes is granted, whatever the limit
    const text = plan.answerBytes === undefined ? cutToTokens(whole, maxTokens) : whole;
    const isCut = text.length < whole.length;
    return { messageId: newId('msg'), model, text, isCut, charge: chargeFor(model, maxTokens) };
  }

  #textFor(request: MessageRequest, digest: string, bytes: number | undefined): string {
    if (bytes !== undefined) return digest.repeat(Math.ceil(bytes / digest.length)).slice(0, bytes);
    return isRootRequest(request) ? rootText(request) : answerText(request, digest, this.#indexes);
  }

  async #charge(answer: Answer, { requestId, tag, receivedAt, digest }: Call): Promise<void> {
    try {
      await this.#books.bill.append({
        provider_request_id: requestId,
        message_id: answer.messageId,
        tag,
        received_at: receivedAt,
        at: new Date().toISOString(),
        model: answer.model,
        input_tokens: answer.charge.inputTokens,
        output_tokens: answer.charge.outputTokens,
        cost_usd: answer.charge.costUsd,
        request_sha256: digest,
      });
    } catch (error) {
      // Half a line may stand on the bill: whether this was charged is for a person to find out.
      if (tag !== null) this.#books.records.forget(tag);
      throw error;
    }
  }
}

function typeOf({ stream }: MessageRequest): string {
  return stream ? STREAM_TYPE : JSON_TYPE;
}

/** Node joins a repeated header of ours with commas, so it is one text or absent. */
function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

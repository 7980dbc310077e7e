import { hash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { type Answer, answerAsEvents, answerAsJson, cutToTokens } from './answer-body.ts';
import { answerText } from './answer-text.ts';
import type { BillFile } from './bill-file.ts';
import { deliver, JSON_TYPE, STREAM_TYPE } from './delivery.ts';
import type { DispatchRecords, DispatchResult } from './dispatch-records.ts';
import { REFUSAL_TYPES, type RefusalStatus } from './faults.ts';
import { errorBody, newId, sendError } from './http-replies.ts';
import { IndexCache } from './index-cache.ts';
import { type MessageRequest, parseMessageRequest } from './message-request.ts';
import { type Plan, planFor, type Temper } from './plan.ts';
import { chargeFor } from './price-list.ts';
import { RequestLimit } from './request-limit.ts';
import { isRootRequest, rootText } from './root-role.ts';
import { parseWishes } from './simulate-header.ts';

const REFUSAL_MESSAGES: Record<RefusalStatus, string> = {
  429: 'This request would exceed the rate limit of your organization (simulated).',
  500: 'Internal server error (simulated).',
  529: 'Overloaded (simulated).',
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
  readonly #bill: BillFile;
  readonly #records: DispatchRecords;
  readonly #temper: Temper;
  readonly #stopping: AbortSignal;
  readonly #indexes = new IndexCache();
  readonly #limit: RequestLimit | undefined;
  readonly #seen = new Map<string, number>();

  /** `stopping` abandons answers that are not produced yet; they are not charged. */
  constructor(bill: BillFile, records: DispatchRecords, temper: Temper, stopping: AbortSignal) {
    this.#bill = bill;
    this.#records = records;
    this.#temper = temper;
    this.#limit = temper.requestsPerMinute === undefined ? undefined : new RequestLimit(temper.requestsPerMinute);
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
    if (call.tag !== null && !this.#records.arrive(call.tag)) {
      const message = `Dispatch ${call.tag} was looked up before it arrived and is revoked`;
      return sendError(response, requestId, 409, 'dispatch_revoked', message);
    }
    const overLimit = this.#limit?.admit(response);
    if (overLimit !== undefined) return this.#refuse(call, 429, REFUSAL_TYPES[429], REFUSAL_MESSAGES[429], overLimit);
    const parsed = parseMessageRequest(body);
    const wishes = parseWishes(headerOf(request, 'x-simulate'));
    if (typeof parsed === 'string' || typeof wishes === 'string') {
      const message = typeof parsed === 'string' ? parsed : String(wishes);
      return this.#refuse(call, 400, 'invalid_request_error', message);
    }
    const plan = planFor(wishes, this.#temper, call.digest, this.#countSeen(call.digest));
    if (plan.fault?.kind === 'refuse') {
      const { status } = plan.fault;
      return this.#refuse(call, status, REFUSAL_TYPES[status], REFUSAL_MESSAGES[status], plan.retryAfterSeconds);
    }
    if (await this.#wait(plan.latencyMs)) await this.#answer(call, parsed, plan);
    else response.destroy();
  }

  #refuse(call: Call, status: number, type: string, message: string, retryAfterSeconds?: number): void {
    const { response, requestId } = call;
    const body = Buffer.from(errorBody(requestId, type, message));
    this.#keep(call, { state: 'refused', status, contentType: JSON_TYPE, body, costUsd: '0' });
    sendError(response, requestId, status, type, message, retryAfterSeconds);
  }

  async #answer(call: Call, request: MessageRequest, plan: Plan): Promise<void> {
    const answer = this.#produce(request, call.digest, plan);
    await this.#charge(answer, call);
    const contentType = request.stream ? STREAM_TYPE : JSON_TYPE;
    const body = Buffer.from(request.stream ? answerAsEvents(answer) : answerAsJson(answer));
    this.#keep(call, { state: 'answered', status: 200, contentType, body, costUsd: answer.charge.costUsd });
    const fault = plan.fault?.kind === 'refuse' ? undefined : plan.fault?.kind;
    await deliver(call.response, call.requestId, contentType, body, fault);
  }

  #keep({ tag, requestId }: Call, result: Omit<DispatchResult, 'requestId'>): void {
    if (tag !== null) this.#records.finish(tag, { ...result, requestId });
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
      await this.#bill.append({
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
      if (tag !== null) this.#records.forget(tag);
      throw error;
    }
  }
}

/** Node joins a repeated header of ours with commas, so it is one text or absent. */
function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

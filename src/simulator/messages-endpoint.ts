import { hash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import type { Answer } from './answer-body.ts';
import { answerText } from './answer-text.ts';
import type { BillFile } from './bill-file.ts';
import { deliver } from './delivery.ts';
import { REFUSAL_TYPES, type RefusalStatus } from './faults.ts';
import { newId, sendError } from './http-replies.ts';
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

/** `POST /v1/messages`: produces the answer, charges for it, and only then starts to send it. */
export class MessagesEndpoint {
  readonly #bill: BillFile;
  readonly #temper: Temper;
  readonly #stopping: AbortSignal;
  readonly #indexes = new IndexCache();
  readonly #limit: RequestLimit | undefined;
  readonly #seen = new Map<string, number>();

  /** `stopping` abandons answers that are not produced yet; they are not charged. */
  constructor(bill: BillFile, temper: Temper, stopping: AbortSignal) {
    this.#bill = bill;
    this.#temper = temper;
    this.#limit = temper.requestsPerMinute === undefined ? undefined : new RequestLimit(temper.requestsPerMinute);
    this.#stopping = stopping;
  }

  /** Answers one request whose body has arrived whole. Rejects if the bill cannot be written. */
  async handle(request: IncomingMessage, response: ServerResponse, requestId: string, body: Buffer): Promise<void> {
    const overLimit = this.#limit?.admit(response);
    if (overLimit !== undefined) return refuse(response, requestId, 429, overLimit);
    const parsed = parseMessageRequest(body);
    const wishes = parseWishes(headerOf(request, 'x-simulate'));
    if (typeof parsed === 'string' || typeof wishes === 'string') {
      const message = typeof parsed === 'string' ? parsed : String(wishes);
      return sendError(response, requestId, 400, 'invalid_request_error', message);
    }
    const digest = hash('sha256', body, 'hex');
    const plan = planFor(wishes, this.#temper, digest, this.#countSeen(digest));
    if (plan.fault?.kind === 'refuse') return refuse(response, requestId, plan.fault.status, plan.retryAfterSeconds);
    if (!(await this.#wait(plan.latencyMs))) {
      response.destroy();
      return;
    }
    const answer = this.#produce(parsed, digest, plan);
    await this.#charge(answer, requestId, digest, headerOf(request, 'x-madrugada-tag'));
    await deliver(response, requestId, answer, parsed.stream === true, plan.fault?.kind);
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
    const text = this.#textFor(request, digest, plan.answerBytes);
    return { messageId: newId('msg'), model: request.model, text, charge: chargeFor(request.model) };
  }

  #textFor(request: MessageRequest, digest: string, bytes: number | undefined): string {
    if (bytes !== undefined) return digest.repeat(Math.ceil(bytes / digest.length)).slice(0, bytes);
    return isRootRequest(request) ? rootText(request) : answerText(request, digest, this.#indexes);
  }

  async #charge(answer: Answer, requestId: string, digest: string, tag: string | undefined): Promise<void> {
    await this.#bill.append({
      provider_request_id: requestId,
      message_id: answer.messageId,
      tag: tag ?? null,
      at: new Date().toISOString(),
      model: answer.model,
      input_tokens: answer.charge.inputTokens,
      output_tokens: answer.charge.outputTokens,
      cost_usd: answer.charge.costUsd,
      request_sha256: digest,
    });
  }
}

function refuse(
  response: ServerResponse,
  requestId: string,
  status: RefusalStatus,
  retryAfterSeconds: number | undefined,
): void {
  sendError(response, requestId, status, REFUSAL_TYPES[status], REFUSAL_MESSAGES[status], retryAfterSeconds);
}

/** Node joins a repeated header of ours with commas, so it is one text or absent. */
function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

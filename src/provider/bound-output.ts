import type { ModelPrice } from './model-price.ts';
import { Unbounded } from './unbounded.ts';

/** Where the APIs take the limit of an answer's tokens: Messages and old Completions, Chat Completions, Responses. */
export const OUTPUT_LIMITS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const;

/** The most output tokens a request can be charged for, all its choices together. */
export function boundOutput(price: ModelPrice, request: Record<string, unknown>): number {
  for (const field of ['prediction', 'audio'])
    if (isGiven(request[field])) throw new Unbounded(`its "${field}" is charged beside its output`);
  const limits = OUTPUT_LIMITS.flatMap((field) => countIn(request, field) ?? []);
  const most = limits.length > 0 ? Math.max(...limits) : price.maxOutputTokens;
  if (most === undefined)
    throw new Unbounded(
      `it says no max_tokens, and the most that model ${price.model} writes is not known; set one, or "max_output_tokens" with its price`,
    );
  return most * choices(request);
}

function choices(request: Record<string, unknown>): number {
  const each = Math.max(1, countIn(request, 'n') ?? 1, countIn(request, 'best_of') ?? 1);
  return each * (Array.isArray(request.prompt) ? Math.max(1, request.prompt.length) : 1);
}

function countIn(request: Record<string, unknown>, field: string): number | undefined {
  const value = request[field];
  if (!isGiven(value)) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new Unbounded(`its "${field}" is no whole number`);
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

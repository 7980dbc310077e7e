import { createHash } from 'node:crypto';
import type { JournaledRequest } from './request.ts';

/** The tag a dispatch carries to the provider: a digest of task, seq and dispatch, so that no client's words reach the provider. */
export function tagOf(taskKey: string, seq: number, dispatch: number): string {
  return createHash('sha256').update(`${taskKey}\n${seq}\n${dispatch}`).digest('hex').slice(0, 32);
}

/** What of a request carries its tag, beside the header `x-madrugada-tag`. */
export interface Tagging {
  /** Further headers, in lower case: those that a gateway writes to its own bill. */
  headers: readonly string[];
  /** LiteLLM's header for its spend logs. */
  litellm: boolean;
  /** `metadata.user_id` of a request to Anthropic's message endpoint. */
  body: boolean;
}

export const HEADER_ONLY: Tagging = { headers: [], litellm: false, body: false };

/** The tag of a dispatch and what carries it. */
export interface CarriedTag {
  tag: string;
  tagging: Tagging;
}

const LITELLM_HEADER = 'x-litellm-spend-logs-metadata';

/** The headers that carry the tag. LiteLLM's is left as it is where the request has one of its own. */
export function tagHeaders(request: JournaledRequest, { tag, tagging }: CarriedTag): Record<string, string> {
  const headers: Record<string, string> = { 'x-madrugada-tag': tag };
  for (const name of tagging.headers) headers[name] = tag;
  if (tagging.litellm && !request.headers.has(LITELLM_HEADER))
    headers[LITELLM_HEADER] = JSON.stringify({ madrugada_tag: tag });
  return headers;
}

/**
 * The body with the tag as `metadata.user_id`, where it is wanted and the request has no `metadata` of its own. The rest stays byte for byte:
 * reading and writing JSON anew would change its numbers.
 */
export function taggedBody(request: JournaledRequest, { tag, tagging }: CarriedTag): Uint8Array {
  if (!tagging.body || request.method !== 'POST' || !request.url.pathname.endsWith('/v1/messages')) return request.body;
  const text = jsonObjectWithoutMetadata(request.body);
  if (text === undefined) return request.body;
  const inside = text.indexOf('{') + 1;
  return Buffer.from(`${text.slice(0, inside)}"metadata":${JSON.stringify({ user_id: tag })},${text.slice(inside)}`);
}

/** Undefined for a compressed body, too. */
function jsonObjectWithoutMetadata(body: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    const value: unknown = JSON.parse(text);
    const isPlain = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isPlain && Object.keys(value).length > 0 && !('metadata' in value) ? text : undefined;
  } catch {
    return undefined;
  }
}

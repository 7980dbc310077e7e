import { createHash } from 'node:crypto';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { clampMaxTokens } from '../provider/clamp-max-tokens.ts';
import { isFreeRequest } from '../provider/worst-case.ts';
import { canonicalJson } from './canonical-json.ts';

/** One HTTP request of an agent, read whole. */
export interface JournaledRequest {
  method: string;
  url: URL;
  headers: Headers;
  body: Uint8Array;
  signal: AbortSignal | undefined;
  /** An SDK's own retry of a request (rule R10: it takes the place of the one it repeats). */
  isRetry: boolean;
}

/** What identifies a request whoever sends it, and the model it names (undefined: none, or the body is not JSON). */
export interface RequestIdentity {
  sha256: Buffer;
  model: string | undefined;
}

/** Reads what was given to a `fetch`. Only a streamed or multipart body needs waiting for. */
export async function readRequest(
  input: string | URL | Request,
  init: RequestInit | undefined,
): Promise<JournaledRequest> {
  if (
    !(input instanceof Request) &&
    (init?.body === undefined || init.body === null || typeof init.body === 'string')
  ) {
    const headers = new Headers(init?.headers);
    return describe(
      init?.method ?? 'GET',
      new URL(input),
      headers,
      Buffer.from(init?.body ?? ''),
      init?.signal ?? undefined,
    );
  }
  const request = new Request(input, init);
  return describe(
    request.method,
    new URL(request.url),
    request.headers,
    new Uint8Array(await request.arrayBuffer()),
    request.signal,
  );
}

function describe(
  method: string,
  url: URL,
  headers: Headers,
  body: Uint8Array,
  signal: AbortSignal | undefined,
): JournaledRequest {
  const isRetry = Number(headers.get('x-stainless-retry-count') ?? 0) > 0;
  return { method: method.toUpperCase(), url, headers, body, signal, isRetry };
}

/**
 * The identity of a request: a digest of method, path with query, `anthropic-beta` and the body as canonical JSON (else its bytes), after
 * decompression. The host and SDK headers do not count: they change between runs and versions, the question does not.
 */
export function identify(request: JournaledRequest): RequestIdentity {
  const body = plainBody(request);
  const json = canonicalOrUndefined(body);
  const sha256 = createHash('sha256')
    .update(
      `${request.method}\n${request.url.pathname}${request.url.search}\n${request.headers.get('anthropic-beta') ?? ''}\n`,
    )
    .update(json ?? body)
    .digest();
  return { sha256, model: json === undefined ? undefined : modelOf(json) };
}

/**
 * The request as it is sent where a batch limits the output of its calls: an SDK's default of 128,000 tokens would make holds absurd. Its
 * identity is taken before. A compressed body is sent as it is, with the hold it asks for.
 */
export function withOutputLimit(request: JournaledRequest, most: number | undefined): JournaledRequest {
  const path = request.url.pathname;
  if (most === undefined || request.headers.has('content-encoding') || isFreeRequest({ method: request.method, path }))
    return request;
  return { ...request, body: clampMaxTokens(request.body, most) };
}

/** The body as the provider reads it. */
export function plainBody(request: JournaledRequest): Uint8Array {
  return decompress(request.body, request.headers.get('content-encoding'));
}

function decompress(body: Uint8Array, encoding: string | null): Uint8Array {
  switch (encoding) {
    case 'gzip':
      return gunzipSync(body);
    case 'deflate':
      return inflateSync(body);
    case 'br':
      return brotliDecompressSync(body);
    default:
      return body;
  }
}

function canonicalOrUndefined(body: Uint8Array): string | undefined {
  if (body.length === 0) return undefined;
  try {
    return canonicalJson(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return undefined; // not JSON: its bytes identify it
  }
}

function modelOf(json: string): string | undefined {
  const parsed: unknown = JSON.parse(json);
  const model = typeof parsed === 'object' && parsed !== null && 'model' in parsed ? parsed.model : undefined;
  return typeof model === 'string' ? model : undefined;
}

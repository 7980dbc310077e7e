import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

/** The real provider's limit for a request body. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;

/** A fresh id such as `req_5f1c…`: unique per request, unlike the answer, which depends only on the request. */
export function newId(prefix: 'req' | 'msg'): string {
  return `${prefix}_${randomUUID().replaceAll('-', '')}`;
}

/** The whole request body; undefined if it is larger than 32 MB. Rejects if the client leaves before its end. */
export function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= MAX_BODY_BYTES) chunks.push(chunk);
    });
    const finish = () => resolve(size <= MAX_BODY_BYTES ? Buffer.concat(chunks, size) : undefined);
    request.on('end', finish);
    // A client may hang up so soon that its whole request is here but not yet at its end: it has asked, and will pay.
    request.on('error', (error) => (request.complete ? finish() : reject(error)));
  });
}

/** Sends `body` as a JSON response. A client that has gone meanwhile is not an error. */
export function sendJson(
  response: ServerResponse,
  requestId: string,
  body: object,
  headers: Record<string, string> = {},
): void {
  send(response, 200, { 'request-id': requestId, ...headers }, JSON.stringify(body));
}

/** The body of an error in Anthropic's form. */
export function errorBody(requestId: string, type: string, message: string): string {
  return JSON.stringify({ type: 'error', error: { type, message }, request_id: requestId });
}

/** Sends an error in Anthropic's form, e.g. `sendError(response, id, 401, 'authentication_error', '…')`. */
export function sendError(
  response: ServerResponse,
  requestId: string,
  status: number,
  type: string,
  message: string,
  headers: Record<string, string> = {},
): void {
  send(response, status, { 'request-id': requestId, ...headers }, errorBody(requestId, type, message));
}

function send(response: ServerResponse, status: number, headers: Record<string, string>, body: string): void {
  if (response.destroyed) return;
  const length = Buffer.byteLength(body);
  response.writeHead(status, { ...headers, 'content-type': 'application/json', 'content-length': length });
  response.end(body);
}

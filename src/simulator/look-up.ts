import type { ServerResponse } from 'node:http';
import type { DispatchRecords } from './dispatch-records.ts';
import { sendError, sendJson } from './http-replies.ts';

/** The tag in `GET /v1/dispatches/TAG`; undefined for any other request. */
export function lookedUpTag(endpoint: string): string | undefined {
  const encoded = /^GET \/v1\/dispatches\/([^/]+)$/.exec(endpoint)?.[1];
  try {
    return encoded === undefined ? undefined : decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

/** Answers a look-up. Without the header `x-dispatch-state` nothing is said about the dispatch. */
export function answerLookUp(response: ServerResponse, requestId: string, tag: string, records: DispatchRecords): void {
  const known = records.lookUp(tag);
  if (known === 'forgotten') {
    sendError(response, requestId, 404, 'not_found_error', `The answer to dispatch ${tag} is no longer kept`);
  } else if (known === 'in-progress') {
    sendJson(response, requestId, {}, { 'x-dispatch-state': known, 'retry-after': '1' });
  } else if (known === 'not-received') {
    sendJson(response, requestId, {}, { 'x-dispatch-state': known });
  } else {
    response.writeHead(200, {
      'x-dispatch-state': known.state,
      'x-dispatch-status': String(known.status),
      'x-dispatch-cost-usd': known.costUsd,
      'request-id': known.requestId,
      'content-type': known.contentType,
      'content-length': known.body.length,
    });
    response.end(known.body);
  }
}

import type { ServerResponse } from 'node:http';
import type { ChargedFault } from './faults.ts';

export const STREAM_TYPE = 'text/event-stream; charset=utf-8';
export const JSON_TYPE = 'application/json';

/**
 * Sends a charged answer, or as much of it as `fault` lets through. Resolves when nothing more will be sent: after a
 * stall at once, with the connection left open. A client that has gone is not an error: it has paid all the same.
 */
export async function deliver(
  response: ServerResponse,
  requestId: string,
  contentType: string,
  body: Buffer,
  fault: ChargedFault | undefined,
): Promise<void> {
  if (response.destroyed || fault === 'stall-headers') return;
  if (fault === 'charge-and-drop') {
    response.destroy();
    return;
  }
  const stream = contentType === STREAM_TYPE;
  response.writeHead(200, stream ? streamHeaders(requestId) : jsonHeaders(requestId, body.length));
  if (fault) await deliverHalf(response, body, fault);
  else await deliverWhole(response, body);
}

async function deliverWhole(response: ServerResponse, body: Buffer): Promise<void> {
  await new Promise<void>((resolve) => {
    response.once('close', resolve);
    response.end(body, () => resolve());
  });
}

async function deliverHalf(response: ServerResponse, body: Buffer, fault: ChargedFault): Promise<void> {
  await new Promise<void>((resolve) => {
    response.once('close', resolve);
    response.write(body.subarray(0, body.length >> 1), () => resolve());
  });
  // Only now: destroying earlier would drop what is still queued, and the client would see no half answer.
  if (fault === 'cut-stream') response.destroy();
}

function streamHeaders(requestId: string) {
  return {
    'request-id': requestId,
    'content-type': STREAM_TYPE,
    'cache-control': 'no-cache',
  };
}

/** With a length, so that a client can tell half a body from a whole one. */
function jsonHeaders(requestId: string, length: number) {
  return { 'request-id': requestId, 'content-type': JSON_TYPE, 'content-length': length };
}

import type { ServerResponse } from 'node:http';
import { beginningOfEvents, errorEvent } from './answer-body.ts';
import type { ChargedFault } from './faults.ts';
import { errorBody } from './http-replies.ts';
import { proxyPage } from './proxy-page.ts';
import { type Reply, STREAM_TYPE } from './reply.ts';

/**
 * Sends a charged answer, or as much of it as `fault` lets through. Resolves when nothing more will be sent: after a
 * stall at once, with the connection left open. A client that has gone is not an error: it has paid all the same.
 */
export async function deliver(
  response: ServerResponse,
  requestId: string,
  answer: Reply,
  fault: ChargedFault | undefined,
): Promise<void> {
  switch (fault?.kind) {
    case 'stall-headers':
      return;
    case 'charge-and-drop':
      response.destroy();
      return;
    case 'stall-body':
      return sendHalf(response, requestId, answer);
    case 'cut-stream':
      await sendHalf(response, requestId, answer);
      // Only now: destroying earlier would drop what is still queued, and the client would see no half answer.
      response.destroy();
      return;
    case 'end-early':
      return sendWhole(response, requestId, { ...answer, body: beginningOf(answer) });
    case 'error-late':
      return sendWhole(response, requestId, errorReply(requestId, answer.contentType, fault.type, beginningOf(answer)));
    case 'gave-up':
      return sendWhole(response, requestId, proxyPage(504));
    default:
      return sendWhole(response, requestId, answer);
  }
}

/** An error with the status of a success: an event after the `before` of a stream; in a plain response the whole body, as gateways do. */
export function errorReply(requestId: string, contentType: string, type: string, before: Buffer | undefined): Reply {
  const message = `${type} after the status was sent (simulated).`;
  if (contentType !== STREAM_TYPE)
    return { status: 200, contentType, body: Buffer.from(errorBody(requestId, type, message)) };
  return {
    status: 200,
    contentType,
    body: Buffer.concat([before ?? Buffer.of(), Buffer.from(errorEvent(type, message))]),
  };
}

/** Sends all of it, with a length, so that a client can tell half a body from a whole one; a stream has none. */
export async function sendWhole(response: ServerResponse, requestId: string, reply: Reply): Promise<void> {
  if (response.destroyed) return;
  response.writeHead(reply.status, headersOf(requestId, reply));
  await new Promise<void>((resolve) => {
    response.once('close', resolve);
    response.end(reply.body, () => resolve());
  });
}

async function sendHalf(response: ServerResponse, requestId: string, reply: Reply): Promise<void> {
  if (response.destroyed) return;
  response.writeHead(reply.status, headersOf(requestId, reply));
  await new Promise<void>((resolve) => {
    response.once('close', resolve);
    response.write(reply.body.subarray(0, reply.body.length >> 1), () => resolve());
  });
}

/** Whole events with some of the content, or half of a plain body. */
function beginningOf({ contentType, body }: Reply): Buffer {
  return contentType === STREAM_TYPE ? beginningOfEvents(body) : body.subarray(0, body.length >> 1);
}

function headersOf(requestId: string, { contentType, body }: Reply): Record<string, string | number> {
  const stream = { 'content-type': STREAM_TYPE, 'cache-control': 'no-cache' };
  const whole = { 'content-type': contentType, 'content-length': body.length };
  return { 'request-id': requestId, ...(contentType === STREAM_TYPE ? stream : whole) };
}

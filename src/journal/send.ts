import type { Dispatcher } from 'undici';
import { messageOf } from '../errors.ts';
import type { Deadline } from './deadline.ts';
import type { JournaledRequest } from './request.ts';
import { type CarriedTag, taggedBody, tagHeaders } from './tag.ts';

/** How sending ended: nothing left the process, the response came whole, or something left and no whole response came back. */
export type SendEnd = { kind: 'not sent'; error: string } | { kind: 'whole' } | { kind: 'broken'; error: string };

/** Told of a response as it arrives. */
export interface ResponseSink {
  onHead(status: number, headers: Record<string, string>): void;
  onChunk(chunk: Buffer): void;
}

/** Longest silence within a body before the response counts as stalled, in milliseconds. */
const BODY_IDLE_MS = 60_000;

/** Of the response's headers, those a replay or a refusal needs; the rest may hold secrets such as cookies. */
const KEPT_HEADERS =
  /^(content-type|request-id|x-request-id|retry-after(-ms)?|x-should-retry|anthropic-ratelimit-.*|x-ratelimit-.*)$/;
/** Set by the client for the connection at hand, and `accept-encoding`: bodies are journaled as they are, uncompressed. */
const HOP_HEADERS = new Set([
  'connection',
  'content-length',
  'host',
  'transfer-encoding',
  'keep-alive',
  'accept-encoding',
]);

/**
 * Sends one request. The deadline is enforced here, from headers to the last byte, and looked at once more when the connection is ready,
 * just before any byte is written (rule R5): whoever froze meanwhile sends nothing.
 */
export function send(
  dispatcher: Dispatcher,
  request: JournaledRequest,
  tag: CarriedTag,
  deadline: Deadline,
  sink: ResponseSink,
): Promise<SendEnd> {
  return new Promise((resolve) => {
    let writing = false;
    let hasEnded = false;
    let abort: ((reason: Error) => void) | undefined;
    const timer = setTimeout(
      () => {
        if (abort) abort(new Error(`no whole response within ${deadline.totalMs / 1000} s`));
        else end({ kind: 'not sent', error: 'no connection before the deadline' });
      },
      Math.max(0, deadline.remainingMs),
    );
    const end = (how: SendEnd) => {
      hasEnded = true;
      clearTimeout(timer);
      resolve(how);
    };
    const fail = (error: Error) => end({ kind: writing ? 'broken' : 'not sent', error: describe(error) });

    dispatcher.dispatch(
      {
        origin: request.url.origin,
        path: request.url.pathname + request.url.search,
        method: request.method as Dispatcher.HttpMethod,
        headers: headersToSend(request, tag),
        body: request.body.length === 0 ? null : taggedBody(request, tag),
        headersTimeout: 0, // the total deadline bounds it: a long answer is silent until it is finished
        bodyTimeout: BODY_IDLE_MS,
      },
      {
        onRequestStart(controller) {
          if (hasEnded || !deadline.maySend) return controller.abort(new Error('too late to be sent'));
          writing = true;
          abort = (reason) => controller.abort(reason);
        },
        onResponseStart(_controller, status, headers) {
          sink.onHead(status, keptHeaders(headers));
        },
        onResponseData(_controller, chunk) {
          sink.onChunk(chunk);
        },
        onResponseEnd() {
          end({ kind: 'whole' });
        },
        onResponseError(_controller, error) {
          fail(error);
        },
      },
    );
  });
}

function describe(error: Error): string {
  const code = 'code' in error && typeof error.code === 'string' ? `${error.code}: ` : '';
  return code + messageOf(error);
}

/** The tag goes before what the agent has set there: by it the bill's lines find their dispatch. */
function headersToSend(request: JournaledRequest, tag: CarriedTag): Record<string, string> {
  const headers: Record<string, string> = { 'accept-encoding': 'identity' };
  for (const [name, value] of request.headers) if (!HOP_HEADERS.has(name)) headers[name] = value;
  return { ...headers, ...tagHeaders(request, tag) };
}

function keptHeaders(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      typeof value === 'string' && KEPT_HEADERS.test(name) ? [[name, value]] : [],
    ),
  );
}

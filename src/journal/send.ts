import { type Dispatcher, errors } from 'undici';
import { messageOf } from '../errors.ts';
import type { Brake } from './brake.ts';
import type { Deadline } from './deadline.ts';
import type { JournalEnvironment, Limits } from './environment.ts';
import type { JournaledRequest } from './request.ts';
import { type CarriedTag, taggedBody, tagHeaders } from './tag.ts';

/** How sending ended: nothing left the process, the response came whole, or something left and no whole response came back. */
export type SendEnd = { kind: 'not sent'; error: string } | { kind: 'whole' } | { kind: 'broken'; error: string };

/** Told of a response as it arrives. */
export interface ResponseSink {
  onHead(status: number, headers: Record<string, string>): void;
  /** True when the response is over with this chunk, whether or not its connection says so. */
  onChunk(chunk: Buffer): boolean;
}

/** How long a connection whose response is over may take to say so, in milliseconds, before it is closed. */
const LINGER_MS = 1_000;

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
 * just before any byte is written (rule R5): whoever froze meanwhile sends nothing. So is the brake, for a stop that came meanwhile.
 */
export function send(
  { dispatcher, limits }: Pick<JournalEnvironment, 'dispatcher' | 'limits'>,
  request: JournaledRequest,
  tag: CarriedTag,
  deadline: Deadline,
  brake: Brake,
  sink: ResponseSink,
): Promise<SendEnd> {
  return new Promise((resolve) => {
    let writing = false;
    let hasEnded = false;
    let abort: ((reason: Error) => void) | undefined;
    const giveUp = (sent: string, unsent: string) => {
      if (abort) abort(new Error(sent));
      else if (!hasEnded) end({ kind: 'not sent', error: unsent });
    };
    let linger: NodeJS.Timeout | undefined;
    const timer = setTimeout(
      () => giveUp(`no whole response within ${deadline.totalMs / 1000} s`, 'no connection before the deadline'),
      Math.max(0, deadline.remainingMs),
    );
    const end = (how: SendEnd) => {
      if (hasEnded) return;
      hasEnded = true;
      clearTimeout(timer);
      forgetCut();
      resolve(how);
    };
    const fail = (error: Error) => end({ kind: writing ? 'broken' : 'not sent', error: describe(error, limits) });

    const forgetCut = brake.whenCutOff((reason) => giveUp(`broken off: ${reason}`, reason));
    if (brake.held !== undefined) return end({ kind: 'not sent', error: brake.held });
    dispatcher.dispatch(
      {
        origin: request.url.origin,
        path: request.url.pathname + request.url.search,
        method: request.method as Dispatcher.HttpMethod,
        headers: headersToSend(request, tag),
        body: request.body.length === 0 ? null : taggedBody(request, tag),
        headersTimeout: limits.headersMs,
        bodyTimeout: limits.idleMs,
      },
      {
        onRequestStart(controller) {
          if (brake.held !== undefined) return controller.abort(new Error(brake.held));
          if (hasEnded || !deadline.maySend) return controller.abort(new Error('too late to be sent'));
          writing = true;
          abort = (reason) => controller.abort(reason);
        },
        onResponseStart(_controller, status, headers) {
          sink.onHead(status, keptHeaders(headers));
        },
        onResponseData(controller, chunk) {
          if (hasEnded || !sink.onChunk(chunk)) return;
          end({ kind: 'whole' });
          linger = setTimeout(() => controller.abort(new Error('the response was over')), LINGER_MS);
        },
        onResponseEnd() {
          clearTimeout(linger);
          end({ kind: 'whole' });
        },
        onResponseError(_controller, error) {
          clearTimeout(linger);
          fail(error);
        },
      },
    );
  });
}

function describe(error: Error, { headersMs, idleMs }: Limits): string {
  if (error instanceof errors.HeadersTimeoutError) return `no response began within ${headersMs / 1000} s`;
  if (error instanceof errors.BodyTimeoutError) return `the response stalled: nothing came for ${idleMs / 1000} s`;
  const code = 'code' in error && typeof error.code === 'string' ? `${error.code}: ` : '';
  return code + messageOf(error);
}

/** The tag goes before what the agent has set there: by it the bill's lines find their dispatch. */
function headersToSend(request: JournaledRequest, tag: CarriedTag): Record<string, string> {
  const headers: Record<string, string> = { 'accept-encoding': 'identity' };
  for (const [name, value] of request.headers) if (!HOP_HEADERS.has(name)) headers[name] = value;
  return { ...headers, ...tagHeaders(request, tag) };
}

/** What of a response's headers is kept. */
export function keptHeaders(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      typeof value === 'string' && KEPT_HEADERS.test(name) ? [[name, value]] : [],
    ),
  );
}

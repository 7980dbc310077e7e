import type { Dispatcher } from 'undici';
import { messageOf } from '../../errors.ts';
import { isOver } from '../deadline.ts';

/** Thrown where not a byte of the request has left this process. */
export class NotSent extends Error {
  override name = 'NotSent';
}

export interface HttpRequest {
  method: Dispatcher.HttpMethod;
  url: URL;
  headers: Record<string, string>;
  body: string | undefined;
}

export interface HttpReply {
  status: number;
  headers: Record<string, string>;
  /** Undefined where it did not come whole, or is no text; `problem` says why. */
  body: string | undefined;
  problem: string | undefined;
}

/**
 * Sends one request, once: no redirect is followed and nothing is retried. Resolves once the reply's status is known and its body, if that
 * comes, is read; `maxBytes` is the most of it that is taken. Throws `NotSent` where nothing was written, else an error that leaves open
 * whether the request arrived. The signal ends it at any point.
 */
export function sendOnce(
  dispatcher: Dispatcher,
  request: HttpRequest,
  { signal, maxBytes }: { signal: AbortSignal; maxBytes: number },
): Promise<HttpReply> {
  return new Promise((resolve, reject) => {
    let isWriting = false;
    let head: { status: number; headers: Record<string, string> } | undefined;
    const chunks: Buffer[] = [];
    let size = 0;
    let abort: ((reason: Error) => void) | undefined;
    const fail = (error: unknown) => {
      signal.removeEventListener('abort', onAbort);
      if (head) resolve({ ...head, body: undefined, problem: messageOf(error) });
      else reject(isWriting ? new Error(describe(error)) : new NotSent(describe(error)));
    };
    const onAbort = () => {
      const reason = new Error(`given up: ${messageOf(signal.reason)}`);
      if (abort) abort(reason);
      else fail(reason); // still connecting; should the connection come, nothing is written
    };
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    dispatcher.dispatch(
      {
        origin: request.url.origin,
        path: request.url.pathname + request.url.search,
        method: request.method,
        headers: { ...request.headers, 'accept-encoding': 'identity' },
        body: request.body ?? null,
        reset: true,
      },
      {
        onRequestStart(controller) {
          // runs when a connection is ready, just before the first byte
          if (isOver(signal)) return controller.abort(new Error('given up'));
          isWriting = true;
          abort = (reason) => controller.abort(reason);
        },
        onResponseStart(_controller, status, headers) {
          if (status >= 200) head = { status, headers: single(headers) };
        },
        onResponseData(controller, chunk) {
          size += chunk.length;
          if (size > maxBytes) controller.abort(new Error(`the reply has more than ${maxBytes} bytes`));
          else chunks.push(chunk);
        },
        onResponseEnd() {
          signal.removeEventListener('abort', onAbort);
          if (head) resolve({ ...head, ...asText(Buffer.concat(chunks), head.headers) });
        },
        onResponseError(_controller, error) {
          fail(error);
        },
      },
    );
  });
}

function asText(
  body: Buffer,
  headers: Record<string, string>,
): { body: string | undefined; problem: string | undefined } {
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity')
    return { body: undefined, problem: `the reply is encoded as ${encoding}, which was not asked for` };
  try {
    return { body: new TextDecoder('utf-8', { fatal: true }).decode(body), problem: undefined };
  } catch {
    return { body: undefined, problem: 'the reply is not UTF-8' };
  }
}

function single(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), Array.isArray(value) ? value.join(', ') : value]],
    ),
  );
}

function describe(error: unknown): string {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  const words = messageOf(error);
  return code === '' || words.includes(code) ? words : `${code}: ${words}`;
}

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { ArrivalsFile } from './arrivals-file.ts';
import { BillFile } from './bill-file.ts';
import { billedTags } from './billed-tags.ts';
import { DispatchRecords } from './dispatch-records.ts';
import type { FaultShare } from './fault-shares.ts';
import { newId, readBody, sendError, sendJson } from './http-replies.ts';
import { answerLookUp, lookedUpTag } from './look-up.ts';
import { parseCountRequest } from './message-request.ts';
import { MessagesEndpoint } from './messages-endpoint.ts';
import type { Latency } from './plan.ts';
import { inputTokensOf, LISTED_MODELS } from './price-list.ts';
import type { RetryAfter } from './retry-after.ts';
import { SimulatorError } from './simulator-error.ts';

export type SimulatorOptions = {
  /** Path of the bill: JSON Lines, created if absent, otherwise appended to. */
  readonly bill: string;
  /** 0 (the default) picks a free port. */
  readonly port?: number;
  /** Time until an answer is produced; none by default. */
  readonly latency?: Latency;
  /** Decides which requests the `faults` strike and how long each takes; "0" by default. */
  readonly seed?: string;
  readonly faults?: readonly FaultShare[];
  /** One of them is sent with each refusal among `faults`. */
  readonly retryAfters?: readonly RetryAfter[];
  /** More requests for messages of one model are refused with status 429; no limit by default. */
  readonly requestsPerMinute?: number | undefined;
  /** Requests of the limit that may come at once; a minute's by default. */
  readonly burst?: number | undefined;
  /** Path of a file that lists every request for a message as it arrives, JSON Lines; none by default. */
  readonly arrivals?: string | undefined;
};

export type Simulator = {
  /** For `ANTHROPIC_BASE_URL`, e.g. `http://127.0.0.1:41373`. */
  readonly url: string;
  readonly bill: string;
  /** Stops listening, sends what is charged, abandons the rest, and closes the bill. */
  close(): Promise<void>;
};

/** Longer than any pool keeps a socket: a connection closed under a client would look like a fault nobody asked for. */
const KEEP_ALIVE_MS = 10 * 60_000;
/** How long a slow reader may still take for a charged answer after `close`. */
const CLOSE_GRACE_MS = 2_000;

/** Starts the simulated provider on 127.0.0.1. Rejects with SimulatorError if the port or the bill cannot be opened. */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const bill = await openBill(options.bill);
  const records = new DispatchRecords(await billedTags(options.bill));
  const stopping = new AbortController();
  const temper = { seed: '0', latency: { minMs: 0, maxMs: 0 }, faults: [], ...options };
  const arrivals = options.arrivals === undefined ? undefined : new ArrivalsFile(options.arrivals);
  const messages = new MessagesEndpoint({ bill, records, arrivals }, temper, stopping.signal);
  const inFlight = new Set<Promise<void>>();
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    void answer(request, response, { messages, records }, inFlight);
  });
  const port = await listen(server, options.port ?? 0).catch(async (error: unknown) => {
    await bill.close();
    throw error;
  });
  return {
    url: `http://127.0.0.1:${port}`,
    bill: options.bill,
    async close() {
      stopping.abort();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const grace = new AbortController();
      await Promise.race([Promise.all(inFlight), setTimeout(CLOSE_GRACE_MS, undefined, { signal: grace.signal })]);
      grace.abort();
      server.closeAllConnections();
      await closed;
      await arrivals?.close();
      await bill.close();
    },
  };
}

async function openBill(path: string): Promise<BillFile> {
  try {
    return await BillFile.open(path);
  } catch (cause) {
    throw new SimulatorError(`the bill ${path} cannot be opened: ${cause instanceof Error ? cause.message : cause}`, {
      cause,
    });
  }
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = (cause: Error) =>
      reject(new SimulatorError(`port ${port} cannot be used: ${cause.message}; choose another or 0`, { cause }));
    server.once('error', fail);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', fail);
      const address = server.address();
      if (address !== null && typeof address === 'object') resolve(address.port);
    });
  });
}

type Services = { readonly messages: MessagesEndpoint; readonly records: DispatchRecords };

/** Never rejects: whatever fails is reported to the client and on stderr. */
async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  services: Services,
  inFlight: Set<Promise<void>>,
): Promise<void> {
  const requestId = newId('req');
  // A client that leaves in the middle of its own request has asked for nothing.
  const body = await readBody(request).catch(() => null);
  if (body === null) return;
  const handled = route(request, response, services, requestId, body).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`simulated provider: ${requestId} failed: ${message}\n`);
    if (response.headersSent) response.destroy();
    else sendError(response, requestId, 500, 'api_error', message);
  });
  inFlight.add(handled);
  await handled;
  inFlight.delete(handled);
}

async function route(
  request: IncomingMessage,
  response: ServerResponse,
  { messages, records }: Services,
  requestId: string,
  body: Buffer | undefined,
): Promise<void> {
  const endpoint = `${request.method} ${(request.url ?? '').split('?', 1)[0]}`;
  const lookedUp = lookedUpTag(endpoint);
  if (!request.headers['x-api-key'] && !request.headers.authorization) {
    sendError(response, requestId, 401, 'authentication_error', 'x-api-key header is required');
  } else if (body === undefined) {
    sendError(response, requestId, 413, 'request_too_large', 'Request exceeds the maximum size of 32 MB');
  } else if (endpoint === 'POST /v1/messages') {
    await messages.handle(request, response, requestId, body);
  } else if (endpoint === 'POST /v1/messages/count_tokens') {
    countTokens(response, requestId, body);
  } else if (lookedUp !== undefined) {
    answerLookUp(response, requestId, lookedUp, records);
  } else if (endpoint === 'GET /v1/models') {
    sendJson(response, requestId, modelList());
  } else {
    sendError(response, requestId, 404, 'not_found_error', `Not found: ${endpoint}`);
  }
}

function countTokens(response: ServerResponse, requestId: string, body: Buffer): void {
  const parsed = parseCountRequest(body);
  if (typeof parsed === 'string') sendError(response, requestId, 400, 'invalid_request_error', parsed);
  else sendJson(response, requestId, { input_tokens: inputTokensOf(parsed.model) });
}

function modelList(): object {
  const data = LISTED_MODELS.map((id) => ({
    type: 'model',
    id,
    display_name: `${id} (simulated)`,
    created_at: '2025-11-01T00:00:00Z',
  }));
  return { data, has_more: false, first_id: LISTED_MODELS[0], last_id: LISTED_MODELS.at(-1) };
}

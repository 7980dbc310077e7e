import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Whatever the test wants a provider to do with one request. */
export type Script = (exchange: Exchange) => void | Promise<void>;

/** One request as it arrived, and the ways to answer it. */
export class Exchange {
  /** 1 for the first request that reached the server. */
  readonly number: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Resolves when the client has gone away or the answer is out. */
  readonly closed: Promise<void>;
  readonly #response: ServerResponse;

  constructor(number: number, request: IncomingMessage, body: Buffer, response: ServerResponse) {
    this.number = number;
    this.method = request.method ?? '';
    this.path = request.url ?? '';
    this.headers = request.headers;
    this.body = body;
    this.#response = response;
    this.closed = new Promise((resolve) => response.once('close', resolve));
  }

  /** The text of the first user message; the whole body where it is not a message request. */
  get prompt(): string {
    try {
      return JSON.parse(this.body.toString()).messages[0].content;
    } catch {
      return this.body.toString();
    }
  }

  get isStreamWanted(): boolean {
    return /"stream":\s*true/.test(this.body.toString());
  }

  respond(status: number, body: string | Buffer, headers: Record<string, string> = {}): void {
    this.#response.writeHead(status, { 'request-id': `req_${this.number}`, ...headers }).end(body);
  }

  /** A whole JSON answer. */
  message(text = `answer to ${this.prompt}`): void {
    this.respond(200, JSON.stringify(messageOf(this.number, text)), { 'content-type': 'application/json' });
  }

  refuse(status: number, type: string, headers: Record<string, string> = {}, message = 'no'): void {
    const body = JSON.stringify({ type: 'error', error: { type, message } });
    this.respond(status, body, { 'content-type': 'application/json', ...headers });
  }

  /** Sends the head of an event stream. */
  openStream(): void {
    this.#response.writeHead(200, { 'request-id': `req_${this.number}`, 'content-type': 'text/event-stream' });
    this.#response.flushHeaders();
  }

  /** Resolves when the chunk has been handed to the network. */
  async send(chunk: string | Buffer): Promise<void> {
    await new Promise((resolve) => this.#response.write(chunk, resolve));
  }

  end(): void {
    this.#response.end();
  }

  /** Breaks the connection, wherever the answer is. */
  cut(): void {
    this.#response.destroy();
  }

  /** A whole streamed answer. */
  stream(text = `answer to ${this.prompt}`): void {
    this.openStream();
    for (const event of streamEvents(this.number, text)) void this.send(event);
    this.end();
  }
}

/** An HTTP server that does with each request what the test says, and counts them. */
export class ScriptedProvider {
  /** Every request that arrived, in order. */
  readonly exchanges: Exchange[] = [];
  readonly url: string;
  /** Answers all that is not held: by default with a message, streamed where that was asked for. */
  script: Script = answerAll;
  readonly #server: ReturnType<typeof createServer>;
  readonly #waiting: { number: number; resolve: (exchange: Exchange) => void }[] = [];

  constructor(server: ReturnType<typeof createServer>) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', (request, response) => void this.#receive(request, response));
  }

  get requestCount(): number {
    return this.exchanges.length;
  }

  /** The n-th request since the server was started or last forgot, once it is there. */
  arrival(number: number): Promise<Exchange> {
    const there = this.exchanges[number - 1];
    if (there) return Promise.resolve(there);
    return new Promise((resolve) => this.#waiting.push({ number, resolve }));
  }

  /** Leaves requests unanswered: the test does it. */
  hold(): void {
    this.script = () => undefined;
  }

  /** For the next test: no requests, the default script. */
  forget(): void {
    this.exchanges.length = 0;
    this.#waiting.length = 0;
    this.script = answerAll;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const exchange = new Exchange(this.exchanges.length + 1, request, Buffer.concat(chunks), response);
    this.exchanges.push(exchange);
    for (const waiter of this.#waiting.filter(({ number }) => number === exchange.number)) waiter.resolve(exchange);
    await this.script(exchange);
  }
}

/** Starts one on a free loopback port. */
export async function startScriptedProvider(): Promise<ScriptedProvider> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return new ScriptedProvider(server);
}

/** The script that answers every request. */
export function answerAll(exchange: Exchange): void {
  if (exchange.isStreamWanted) exchange.stream();
  else exchange.message();
}

/** A message as the provider would send it. */
export function messageOf(number: number, text: string) {
  return {
    id: `msg_${number}`,
    type: 'message',
    role: 'assistant',
    model: 'claude-haiku-4-5',
    content: [{ type: 'text', text }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 20 },
  };
}

/** The events of a streamed message, one string each. */
export function streamEvents(number: number, text: string): string[] {
  const message = {
    ...messageOf(number, ''),
    content: [],
    stop_reason: null,
    usage: { input_tokens: 10, output_tokens: 1 },
  };
  return [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 20 } },
    { type: 'message_stop' },
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

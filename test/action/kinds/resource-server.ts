import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';

/**
 * What the next request that changes something meets: an answer with this status and no effect, or a fault. After the effect: `cut`,
 * `stall`, `500 after`, `202`; instead of it: `redirect`, `cut before`, `wrong` (another amount than asked for), `ignored`.
 */
export type Fault =
  | number
  | 'cut'
  | 'stall'
  | '500 after'
  | 'redirect'
  | 'cut before'
  | 'wrong'
  | 'ignored'
  | 'accepted only';

/** One request that reached the server. */
export interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  body: string;
}

/** A server that keeps resources as JSON texts under their paths, with ETags; it stands for a client's system. */
export class ResourceServer {
  readonly resources = new Map<string, { text: string; version: number }>();
  readonly seen: Seen[] = [];
  readonly faults: Fault[] = [];
  /** Emits `applied` after each effect, before anything is answered. */
  readonly events = new EventEmitter();
  honoursKeys = true;
  givesEtags = true;
  /** What GETs are answered with instead. */
  getStatus: number | undefined;
  effects = 0;
  url = '';
  readonly #answers = new Map<string, { path: string; status: number }>();

  static async start(): Promise<ResourceServer> {
    const server = new ResourceServer();
    const http = createServer((request, response) => void server.#answer(request, response));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    server.url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    onTestFinished(() => {
      http.closeAllConnections();
      http.close();
    });
    return server;
  }

  /** The requests that wanted to change something. */
  get writes(): Seen[] {
    return this.seen.filter(({ method }) => method !== 'GET');
  }

  /** Resolves at the next effect. */
  applied(): Promise<unknown> {
    return once(this.events, 'applied');
  }

  set(path: string, value: string): void {
    this.resources.set(path, { text: value, version: (this.resources.get(path)?.version ?? 0) + 1 });
  }

  json(path: string): unknown {
    const resource = this.resources.get(path);
    return resource && JSON.parse(resource.text);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const { method = '', url = '' } = request;
    const { pathname: path, searchParams } = new URL(url, this.url);
    this.seen.push({ method, path: url, headers: request.headers, body });
    if (method === 'GET') return this.#get(path, searchParams.get('reference'), response);
    const fault = this.faults.shift();
    if (typeof fault === 'number')
      return reply(response, fault, `{"error":"refused","saw":"${request.headers.authorization}"}`);
    if (fault === 'redirect')
      return reply(response, 307, '', { location: `${this.url}/elsewhere?token=tok-in-location` });
    if (fault === 'cut before') return void request.socket.destroy();
    if (fault === 'ignored') return reply(response, 200, '{}');
    if (fault === 'accepted only') return reply(response, 202, '{}');
    const key = String(request.headers['idempotency-key']);
    const known = this.honoursKeys ? this.#answers.get(key) : undefined;
    const refused = known ? undefined : this.#refusal(request, path);
    if (refused !== undefined) return reply(response, refused, '{}');
    const done =
      known ?? this.#apply(method, path, fault === 'wrong' ? body.replace('"amount":', '"amount":9') : body, key);
    this.#answers.set(key, done);
    this.events.emit('applied');
    if (fault === 'cut') return void request.socket.destroy();
    if (fault === 'stall') return;
    if (fault === '500 after') return reply(response, 500, '{"error":"internal"}');
    const resource = this.resources.get(done.path);
    reply(response, done.status, resource?.text ?? '', { ...this.#etag(done.path), location: this.url + done.path });
  }

  #refusal({ method, headers }: IncomingMessage, path: string): number | undefined {
    const exists = this.resources.has(path);
    if (headers['if-none-match'] === '*' && exists) return 412;
    if (headers['if-match'] !== undefined && headers['if-match'] !== this.#etag(path).etag) return 412;
    return method === 'DELETE' && !exists ? 404 : undefined;
  }

  #apply(method: string, path: string, body: string, key: string): { path: string; status: number } {
    this.effects += 1;
    if (method === 'DELETE') {
      this.resources.delete(path);
      return { path, status: 204 };
    }
    if (method === 'PUT') {
      const status = this.resources.has(path) ? 200 : 201;
      this.set(path, body);
      return { path, status };
    }
    const created = `${path}/${this.effects}`;
    this.set(created, `{"id":"${this.effects}","reference":"${key}",${body.slice(1)}`);
    return { path: created, status: 201 };
  }

  #get(path: string, reference: string | null, response: ServerResponse): void {
    const resource = this.resources.get(path);
    if (this.getStatus !== undefined) reply(response, this.getStatus, '{}');
    else if (reference !== null) reply(response, 200, `{"hits":[${this.#hits(path, reference).join(',')}]}`);
    else if (resource === undefined) reply(response, 404, '{"error":"not found"}');
    else reply(response, 200, resource.text, this.#etag(path));
  }

  #hits(path: string, reference: string): string[] {
    return [...this.resources]
      .filter(
        ([name, { text: content }]) => name.startsWith(`${path}/`) && content.includes(`"reference":"${reference}"`),
      )
      .map(([, { text: content }]) => content);
  }

  #etag(path: string): { etag?: string } {
    const version = this.resources.get(path)?.version;
    return this.givesEtags && version !== undefined ? { etag: `"v${version}"` } : {};
  }
}

function reply(response: ServerResponse, status: number, body: string, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(status === 204 ? undefined : body);
}

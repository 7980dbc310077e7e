import { Agent, type Dispatcher } from 'undici';
import { messageOf } from '../../errors.ts';
import { parseExact, stringifyExact } from './exact-json.ts';
import { type HttpReply, type HttpRequest, NotSent, sendOnce } from './http-request.ts';
import { isAbsent, isSuccess } from './http-status.ts';
import type { Secrets } from './secrets.ts';

/** A resource as a GET shows it. */
export interface HttpResource {
  /** Nothing is there: 404, 410, or a look-up without a hit. */
  absent: boolean;
  status: number;
  etag: string | undefined;
  /** Its content; a number that a double cannot hold is a `JSON.rawJSON` object. */
  json: unknown;
  /** Its content as JSON text with every digit. */
  text: string;
  /** More than one where a look-up found several: then `json` is the list of them. */
  count: number;
  /** Where it was read, without credentials. */
  url: string;
}

/** Takes the resource out of what a look-up answers: one, a list of hits, or undefined for none. */
export type Pick = (json: unknown) => unknown;

export interface TargetOptions {
  /** Credentials. */
  headers: (() => Record<string, string> | Promise<Record<string, string>>) | undefined;
  plainHeaders: Record<string, string>;
  dispatcher: Dispatcher | undefined;
  maxBytes: number;
  secrets: Secrets;
}

/** Somebody else's server: read from, and written to with credentials that are asked for each time and never kept. */
export class HttpTarget {
  readonly #options: TargetOptions;
  readonly #dispatcher: Dispatcher;

  constructor(options: TargetOptions) {
    this.#options = options;
    // no connection is used twice: one that the server has just closed would put an effect in doubt for nothing
    this.#dispatcher = options.dispatcher ?? new Agent({ pipelining: 0 });
  }

  /** Reads a resource. Throws where that is not possible now, or not allowed; undefined `pick`: the whole answer is the resource. */
  async read(url: URL, pick: Pick | undefined, signal: AbortSignal): Promise<HttpResource> {
    const shownUrl = this.shown(url);
    const headers = { accept: 'application/json', 'cache-control': 'no-cache', ...(await this.#headers(url)) };
    const reply = await this.#send({ method: 'GET', url, headers, body: undefined }, signal);
    const base = { status: reply.status, etag: reply.headers.etag, url: shownUrl };
    const nothing = { ...base, absent: true, json: undefined, text: '', count: 0 };
    if (isAbsent(reply.status)) return nothing;
    if (!isSuccess(reply.status))
      throw new Error(`GET ${shownUrl} was answered with HTTP ${reply.status}${hint(reply)}`);
    if (reply.body === undefined) throw new Error(`GET ${shownUrl}: ${reply.problem}`);
    const json = parse(reply.body, shownUrl);
    if (pick === undefined) return { ...base, absent: false, json, text: reply.body, count: 1 };
    const picked = pick(json);
    const hits = Array.isArray(picked) ? picked : picked === undefined || picked === null ? [] : [picked];
    if (hits.length === 0) return nothing;
    const content = hits.length === 1 ? hits[0] : hits;
    // the ETag is the list's, not the resource's
    return {
      ...base,
      etag: undefined,
      absent: false,
      json: content,
      text: stringifyExact(content),
      count: hits.length,
    };
  }

  /** Sends a request that changes something. Throws `NotSent`, or an error that leaves the effect in question. */
  async write(
    request: Omit<HttpRequest, 'headers'>,
    extra: Record<string, string>,
    signal: AbortSignal,
  ): Promise<HttpReply> {
    const type = request.body === undefined ? {} : { 'content-type': 'application/json' };
    const own = await this.#headers(request.url).catch((error: unknown) => {
      throw new NotSent(`there are no headers for it: ${messageOf(error)}`);
    });
    const headers = { accept: 'application/json', ...type, ...own, ...extra };
    return this.#send({ ...request, headers }, signal);
  }

  /** A URL for people; its credentials, and those of the headers that go with it, are masked from here on, though nothing is sent. */
  async learn(url: URL): Promise<string> {
    await this.#headers(url);
    return this.shown(url);
  }

  /** A URL for people, without credentials. */
  shown(url: URL): string {
    this.#options.secrets.addFromUrl(url);
    return this.#options.secrets.url(url);
  }

  async #send(request: HttpRequest, signal: AbortSignal): Promise<HttpReply> {
    return sendOnce(this.#dispatcher, request, { signal, maxBytes: this.#options.maxBytes });
  }

  /** The user's headers, lower-cased; user information of the URL becomes a header, as a browser does it. */
  async #headers(url: URL): Promise<Record<string, string>> {
    const { headers, plainHeaders, secrets } = this.#options;
    const own = lowerCased(plainHeaders);
    const credentials = lowerCased((await headers?.()) ?? {});
    if (url.username !== '' && credentials.authorization === undefined) {
      const account = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
      credentials.authorization = `Basic ${Buffer.from(account).toString('base64')}`;
    }
    for (const value of Object.values(credentials)) secrets.add(...secretsIn(value));
    return { ...own, ...credentials };
  }
}

/** A credential as it is, without the word before it (`Bearer`), decoded (`Basic`), and as the value of a cookie. */
function secretsIn(value: string): string[] {
  const bare = value.replace(/^[A-Za-z]+ +/, '');
  const basic = /^basic /i.test(value) ? Buffer.from(bare, 'base64').toString() : '';
  const cookies = value.split(/; */).map((part) => part.slice(part.indexOf('=') + 1));
  return [value, bare, basic, basic.slice(basic.indexOf(':') + 1), ...cookies];
}

function lowerCased(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** An absolute http or https URL. Throws for anything else. */
export function toUrl(url: string | URL): URL {
  const parsed = new URL(url);
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:')
    throw new Error(`${parsed.protocol} is no protocol of this kind of action; http: and https: are`);
  return parsed;
}

/** The beginning of what a server said, for people. */
export function hint({ body, headers }: HttpReply): string {
  const location = headers.location === undefined ? '' : `, pointing to ${headers.location}`;
  return location + (body === undefined || body.trim() === '' ? '' : `: ${body.trim().slice(0, 200)}`);
}

function parse(text: string, url: string): unknown {
  try {
    return parseExact(text);
  } catch {
    throw new Error(`GET ${url}: the answer is not JSON: ${text.slice(0, 100)}`);
  }
}

import { messageOf } from '../../errors.ts';
import { NoEffect, UndoRefused } from '../define-action.ts';

const MASK = '[secret]';
/** Shorter ones would be found in every other word. */
const SHORTEST = 4;
/** Credentials are exchanged every hour or so; of those in use during a run, this many are remembered. */
const REMEMBERED = 500;

/** Query parameters whose values are credentials; an idempotency key is none. */
const SECRET_PARAMETER = /token|key$|secret|pass|^sig$|signature|^auth|credential|session|jwt|^code$/i;
const NO_SECRET_PARAMETER = /idempotency/i;
/** A short value, such as `true`, is masked where it stands in a URL, but not looked for everywhere. */
const SHORTEST_OF_URL = 8;
const URL_IN_TEXT = /\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>]*[^\s"'<>.,:;)]/gi;

/**
 * Keeps credentials out of what is recorded, logged or thrown. It knows the ones that were used, in the spellings they turn up in, and masks
 * them wherever they stand, because a target may echo what it was sent.
 */
export class Secrets {
  readonly #known = new Set<string>();

  /** Remembers a credential: as it is, URL-encoded, in Base64 and as it stands in JSON. */
  add(...secrets: (string | undefined)[]): void {
    for (const secret of secrets) {
      if (secret === undefined || secret.length < SHORTEST) continue;
      const base64 = Buffer.from(secret).toString('base64');
      const spellings = [secret, encodeURIComponent(secret), base64, JSON.stringify(secret).slice(1, -1)];
      for (const spelling of spellings) this.#known.add(spelling);
    }
    for (const oldest of this.#known) {
      if (this.#known.size <= REMEMBERED) break;
      this.#known.delete(oldest);
    }
  }

  /** Remembers what a URL carries: a password, and query values whose names say that they are credentials. */
  addFromUrl(url: URL): void {
    this.add(decoded(url.password));
    for (const [name, value] of url.searchParams)
      if (isSecretParameter(name) && value.length >= SHORTEST_OF_URL) this.add(value);
  }

  /** Whether a credential that is known stands in the text. */
  isShownBy(text: string): boolean {
    return [...this.#known].some((secret) => text.includes(secret));
  }

  /** The text without credentials, and without those of URLs in it that were never seen before. */
  text(text: string): string {
    let masked = text.replace(URL_IN_TEXT, withoutSecrets);
    for (const secret of [...this.#known].sort((a, b) => b.length - a.length)) masked = masked.replaceAll(secret, MASK);
    return masked;
  }

  /** A URL for people to read: without user information, credentials and fragment. */
  url(url: URL): string {
    const shown = new URL(url);
    shown.hash = '';
    return this.text(shown.href);
  }

  /** JSON without credentials. */
  json<T>(value: T): T {
    if (typeof value === 'string') return this.text(value) as T;
    if (Array.isArray(value)) return value.map((item) => this.json(item)) as T;
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [this.text(name), this.json(item)])) as T;
  }

  /** The error without credentials, and without its cause and its other fields, which may hold them. */
  error(error: unknown): Error {
    const message = this.text(messageOf(error));
    if (error instanceof NoEffect) return new NoEffect(message);
    if (error instanceof UndoRefused) return new UndoRefused(message);
    return new Error(message);
  }

  /** Runs `work`; what it throws is thrown without credentials. */
  async guard<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.error(error);
    }
  }
}

function isSecretParameter(name: string): boolean {
  return SECRET_PARAMETER.test(name) && !NO_SECRET_PARAMETER.test(name);
}

/** Untouched where there is nothing to hide, so that a text is not rewritten by being looked at. */
function withoutSecrets(text: string): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  const secret = [...new Set(url.searchParams.keys())].filter(isSecretParameter);
  if (url.username === '' && url.password === '' && secret.length === 0) return text;
  url.username = '';
  url.password = '';
  for (const name of secret) url.searchParams.set(name, MASK);
  return url.href.replaceAll(encodeURIComponent(MASK), MASK);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

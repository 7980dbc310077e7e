import type { Dispatcher } from 'undici';
import type { Undo } from '../define-action.ts';
import type { HttpResource, HttpTarget } from './http-target.ts';
import type { Secrets } from './secrets.ts';

/** What the target answered when the effect was made. It is recorded, so it holds no credentials. */
export interface HttpEffect {
  status: number;
  location: string | undefined;
  etag: string | undefined;
  /** The body, JSON where it is that, with numbers beyond a double's reach as texts; undefined where it was too large to be kept. */
  body: unknown;
}

/** By what a resource is found: the action's key always, what the target answered only while that is known. */
export interface KnownResource {
  key: string;
  /** Undefined before the effect, and after a crash that lost it. */
  created: HttpEffect | undefined;
}

/** How one kind of resource is changed over HTTP. Functions of `args` must give the same for the same arguments. */
export interface HttpOptions<Args> {
  method: 'POST' | 'PUT';
  /** Where the effect is made. */
  url(args: Args): string | URL;
  /** What is sent, as JSON. A number beyond the reach of a double: a bigint. */
  body(args: Args): unknown;
  /** Credentials, asked for before each request. Their values are masked wherever they turn up in what is recorded, shown or thrown. */
  headers?: () => Record<string, string> | Promise<Record<string, string>>;
  /** Headers that are no credentials, such as a tenant or a version. */
  plainHeaders?: Record<string, string>;
  /**
   * Where the resource can be read: by its id, or by a look-up URL made of arguments and key. Undefined: not known without what the target
   * answered, so that after a crash a person must look.
   */
  resource(args: Args, known: KnownResource): string | URL | undefined;
  /** Takes the resource out of what a look-up URL answers: one, a list of hits, or undefined for none. Default: the answer is the resource. */
  pick?(json: unknown, args: Args, known: KnownResource): unknown;
  /** What the resource must hold afterwards; it may hold more. Default: the body. */
  intended?(args: Args): unknown;
  /** Decides instead of the comparison with what is intended. */
  matches?(found: HttpResource, args: Args): boolean;
  precondition?: {
    /** What is read to decide. Default: the resource. */
    url?(args: Args): string | URL;
    /** True, or why not. */
    holds(found: HttpResource, args: Args): true | string;
  };
  rollback: HttpRollback<Args>;
  /** The header the key goes into; `idempotency-key` by default. */
  keyHeader?: string;
  /** Does the target take each key once? Default: no. */
  enforcesKey?: boolean;
  /** Milliseconds after the deadline within which a request may still take effect; counts without `enforcesKey`. 60,000 by default. */
  settleMs?: number;
  /** Milliseconds by which what the target shows may lag behind what it has done; 0 by default. */
  lagMs?: number;
  /** The most of an answer that is read, in bytes; 1 MiB by default. */
  maxBytes?: number;
  /** An undici dispatcher, such as a proxy's. It must neither retry nor follow redirects. */
  dispatcher?: Dispatcher;
}

/** What was there before the effect, kept to undo it. The content is text, so that no digit is lost on the way through the database. */
export interface Snapshot {
  url: string;
  status: number;
  absent: boolean;
  etag: string | null;
  text: string | null;
}

export interface HttpBefore {
  /** The action's key, by which its resource is found; an undo has another. */
  key: string;
  /** Null where the resource has no address before it exists. */
  resource: Snapshot | null;
  /** What the precondition was checked on, where that is another resource; without its content. */
  condition: Snapshot | null;
}

export type HttpUndo<Args> = Undo<Args, HttpBefore, HttpEffect>;

/** A request that takes an effect back. */
export interface HttpUndoRequest {
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  url: string | URL;
  /** JSON; left out: no body. */
  body?: unknown;
}

/** How the effect is taken back; see `Rollback`. */
export type HttpRollback<Args> =
  | {
      kind: 'in-band';
      plan: string;
      /**
       * Default: what was not there is deleted, what was there is put back as it was, at the address of the resource. To that address it goes
       * with `If-Match` where an ETag is known; to another one it does not, and a change in the last moment is not noticed.
       */
      request?(undo: HttpUndo<Args>): HttpUndoRequest;
    }
  | {
      kind: 'compensating';
      plan: string;
      /** Such as POST /refunds; it carries the compensation's own key. */
      request(undo: HttpUndo<Args>): HttpUndoRequest;
      /** Where the compensation can be read: by an id it answered with, or a look-up URL made of its key. */
      resource(undo: HttpUndo<Args>, known: KnownResource): string | URL | undefined;
      pick?(json: unknown, undo: HttpUndo<Args>, known: KnownResource): unknown;
      /** What it must hold. Default: the request's body. */
      intended?(undo: HttpUndo<Args>): unknown;
    }
  | { kind: 'out-of-band'; plan: string }
  | { kind: 'none'; cannot: string };

/** What the functions of one HTTP action share. */
export interface Http<Args> {
  target: HttpTarget;
  secrets: Secrets;
  options: HttpOptions<Args>;
  enforcesKey: boolean;
}

import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ReadBack } from '../define-action.ts';
import { type Difference, differences, isEqual, parseExact, project, stringifyExact } from './exact-json.ts';
import type { Http, HttpBefore, HttpEffect, KnownResource, Snapshot } from './http-options.ts';
import { type HttpResource, toUrl } from './http-target.ts';

/** What an auditor, and an undo, need of a reading. Values are JSON texts. */
export interface HttpEvidence {
  url: string;
  status: number;
  etag: string | null;
  /** Of the whole content. */
  sha256: string | null;
  /** Of the content, what was intended to be somehow. */
  found: string | null;
  differences?: Difference[];
  note?: string;
}

/** By what a resource is judged. */
export interface Reading {
  intended: unknown;
  matches: ((found: HttpResource) => boolean) | undefined;
}

const STEP_MS = 250;

/** By what the resource of an action is judged. */
export function readingOf<Args>({ options }: Http<Args>, args: Args): Reading {
  const { matches } = options;
  return {
    intended: options.intended ? options.intended(args) : options.body(args),
    matches: matches && ((found) => matches.call(options, found, args)),
  };
}

/** Reads the resource of an action; undefined where its address is not known. */
export async function readResource<Args>(
  { target, options }: Http<Args>,
  args: Args,
  known: KnownResource,
  signal: AbortSignal,
): Promise<HttpResource | undefined> {
  const url = options.resource(args, known);
  const pick = options.pick && ((json: unknown) => options.pick?.(json, args, known));
  return url === undefined ? undefined : target.read(toUrl(url), pick, signal);
}

/** Reads a resource back; where it shows nothing of an effect that was answered for, again while it may lag behind. */
export async function readBackResource<Args>(look: {
  http: Http<Args>;
  reading: Reading;
  known: KnownResource;
  read(known: KnownResource): Promise<HttpResource | undefined>;
  before: HttpBefore;
  signal: AbortSignal;
}): Promise<ReadBack> {
  const until = performance.now() + (look.http.options.lagMs ?? 0);
  for (;;) {
    const found = judge(await look.read(look.known), look.reading, look.before, look.known.created);
    const mayLag = look.known.created !== undefined && (found.found === 'nothing' || found.found === 'unknown');
    if (!mayLag || performance.now() + STEP_MS > until) return look.http.secrets.json(found);
    await delay(STEP_MS, undefined, { signal: look.signal });
  }
}

function judge(
  found: HttpResource | undefined,
  reading: Reading,
  before: HttpBefore,
  created: HttpEffect | undefined,
): ReadBack {
  if (found === undefined)
    return { found: 'unknown', evidence: { note: 'its address is known only from an answer that never came' } };
  const evidence = evidenceOf(found, reading);
  if (found.count > 1)
    return {
      found: 'something else',
      evidence: { ...evidence, note: `${found.count} resources are found for one action` },
    };
  if (!found.absent && isIntended(found, reading)) return { found: 'effect', evidence, strength: 'strong' };
  if (!isAsBefore(found, reading, before)) return { found: 'something else', evidence };
  return created?.status === 202
    ? { found: 'unknown', evidence: { ...evidence, note: 'the target has accepted it (202), and shows nothing of it' } }
    : { found: 'nothing', evidence };
}

/** Whether the resource holds what was intended. */
export function isIntended(found: HttpResource, reading: Reading): boolean {
  return reading.matches ? reading.matches(found) : differences(normal(reading.intended), found.json).length === 0;
}

/**
 * Whether the resource is as it was before, as far as the action touches it: other fields, such as the time of the last change, may have
 * changed by themselves.
 */
export function isAsBefore(found: HttpResource, { intended }: Reading, { resource }: HttpBefore): boolean {
  if (resource === null || resource.absent) return found.absent;
  if (found.absent || resource.text === null) return false;
  const shape = normal(intended);
  return isEqual(project(shape, parseExact(resource.text)), project(shape, found.json));
}

/** Whether the resource is still as it was when the evidence was taken: by its version where it has one, else by all of its content. */
export function isAsSeen(found: HttpResource, seen: HttpEvidence): boolean {
  if (found.absent || seen.sha256 === null) return found.absent && seen.sha256 === null;
  if (found.etag !== undefined && seen.etag !== null) return found.etag === seen.etag;
  return digestOf(found) === seen.sha256;
}

export function evidenceOf(found: HttpResource, reading: Reading): HttpEvidence {
  const intended = normal(reading.intended);
  const different = found.absent || reading.matches ? [] : differences(intended, found.json);
  return {
    url: found.url,
    status: found.status,
    etag: found.etag ?? null,
    sha256: digestOf(found),
    found: found.absent ? null : stringifyExact(project(intended, found.json)).slice(0, 4_000),
    ...(different.length > 0 && { differences: different }),
  };
}

export function snapshotOf({ url, status, absent, etag, text }: HttpResource): Snapshot {
  return { url, status, absent, etag: etag ?? null, text: absent ? null : text };
}

/** An ETag that `If-Match` may carry: a weak one never matches there. */
export function strongEtag(etag: string | null | undefined): string | undefined {
  return etag === null || etag === undefined || etag.startsWith('W/') ? undefined : etag;
}

function digestOf({ absent, text }: HttpResource): string | null {
  return absent ? null : createHash('sha256').update(text).digest('hex');
}

/** What JSON makes of a value: dates become texts, undefined fields vanish. */
function normal(value: unknown): unknown {
  return parseExact(stringifyExact(value));
}

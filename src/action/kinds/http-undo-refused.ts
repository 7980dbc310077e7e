import { UndoRefused } from '../define-action.ts';
import type { Http, HttpUndo } from './http-options.ts';
import { type HttpEvidence, isAsSeen, isIntended, readingOf } from './http-read-back.ts';
import type { HttpResource } from './http-target.ts';

/** Only what is still as the action left it may be taken back (rule R16). Throws `UndoRefused` where somebody else may have changed it. */
export function refuseIfChanged<Args>(
  http: Http<Args>,
  { args, effect, seen }: HttpUndo<Args>,
  now: HttpResource,
): void {
  const reading = readingOf(http, args);
  const refuse = (why: string) => new UndoRefused(`${now.url}: ${why}`);
  if (now.count > 1) throw refuse(`${now.count} resources are found for one action`);
  if (now.absent) throw refuse('it is not there, so there is nothing to take back');
  if (isEvidence(seen) ? !isAsSeen(now, seen) : !isIntended(now, reading))
    throw refuse('it has changed since the action was read back');
  if (isIntended(now, reading)) return;
  // something else than intended: ours to take back only if it is known that we wrote it
  if (!effect) throw refuse('it is not as intended, and it is not known that the action made it so');
  // the ETag of an answer is the resource's after a PUT, and where it says "created"
  const written = http.options.method === 'PUT' || effect.status === 201 ? effect.etag : undefined;
  if (written && now.etag && bare(written) !== bare(now.etag))
    throw refuse('somebody else has changed it since the action wrote it');
}

function isEvidence(seen: unknown): seen is HttpEvidence {
  return seen !== null && typeof seen === 'object' && 'sha256' in seen && 'etag' in seen;
}

function bare(etag: string): string {
  return etag.replace(/^W\//, '');
}

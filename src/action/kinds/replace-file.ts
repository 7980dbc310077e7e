import { randomBytes } from 'node:crypto';
import { chmod, link, open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { failpoint } from '../../failpoint.ts';
import { codeOf, hashFile, type Sha256, syncFolder } from './file-content.ts';
import { copyDurably, DRAFT_FOLDER, makeFolder, prefixOf } from './file-records.ts';
import type { Place } from './locate-file.ts';

/** A content to be put in the place of another. */
export interface Replacement {
  /** What must be there at the last moment; null: nothing. */
  expected: Sha256;
  content: Uint8Array | { copyOf: string };
  mode: number;
  /** The last look before it happens: throws to call it off. */
  check(): Promise<void>;
}

/** `changed`: the file does not hold what was expected. `overtaken`: another action on the file wanted to go first. Both: nothing was written. */
export type Replaced = 'replaced' | 'changed' | 'overtaken';

/**
 * Replaces a file at one blow, and durably: a draft is written, then renamed. Two actions never both replace the same content, without a lock
 * that a dead process could leave behind: whoever has written its draft removes all others' first, looks at the file next, and renames last. If
 * both renamed, each would have removed the other's draft too late, so that one of them looked after the other had renamed, and saw it. Nor can
 * a process that was frozen before its rename wake up and overwrite what came later: its draft is gone. A file that is to be new is linked, not
 * renamed: that fails if anybody has created it meanwhile.
 *
 * What remains: a program that is no action and changes the file between that look and the rename, a few microseconds later, is overwritten.
 */
export async function replaceFile(place: Place, replacement: Replacement): Promise<Replaced> {
  const draft = join(place.folder, DRAFT_FOLDER, `${prefixOf(place)}${randomBytes(8).toString('hex')}.draft`);
  try {
    if (!(await writeDraft(draft, place, replacement))) return 'overtaken';
    await failpoint('action.file.draft', place.path);
    await removeDrafts(place, draft);
    if ((await hashFile(place.path)) !== replacement.expected) return 'changed';
    await replacement.check();
    await failpoint('action.file.checked', place.path);
    const result = await putInPlace(draft, place, replacement.expected);
    if (result !== 'replaced') return result;
    await failpoint('action.file.renamed', place.path);
    await syncFolder(place.folder);
    await failpoint('action.file.synced', place.path);
    return 'replaced';
  } finally {
    await rm(draft, { force: true });
  }
}

async function putInPlace(draft: string, { path }: Place, expected: Sha256): Promise<Replaced> {
  try {
    await (expected === null ? link(draft, path) : rename(draft, path));
    return 'replaced';
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return 'changed';
    if (codeOf(error) === 'ENOENT') return 'overtaken';
    throw error;
  }
}

/** False when somebody has taken the draft away while it was being written. */
async function writeDraft(draft: string, { folder }: Place, { content, mode }: Replacement): Promise<boolean> {
  await makeFolder(join(folder, DRAFT_FOLDER));
  try {
    if ('copyOf' in content) await copyDurably(content.copyOf, draft);
    else await writeDurably(draft, content);
    await chmod(draft, mode);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

async function writeDurably(path: string, content: Uint8Array): Promise<void> {
  const handle = await open(path, 'wx', 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Takes the drafts of all other writers of this file away: their renames now fail. */
export async function removeDrafts(place: Place, own?: string): Promise<void> {
  const folder = join(place.folder, DRAFT_FOLDER);
  const names = await readdir(folder).catch((error) => (codeOf(error) === 'ENOENT' ? [] : Promise.reject(error)));
  const prefix = prefixOf(place);
  for (const name of names) {
    const path = join(folder, name);
    if (name.startsWith(prefix) && name.endsWith('.draft') && path !== own) await rm(path, { force: true });
  }
}

/**
 * Removes a file if it holds what is expected; false if not. It is moved aside, looked at where nobody else writes, and put back if it is
 * somebody else's.
 */
export async function removeFile(place: Place, expected: string, key: string): Promise<boolean> {
  if ((await hashFile(place.path)) !== expected) return false;
  const aside = asideOf(place, key);
  await rename(place.path, aside);
  await failpoint('action.file.aside', place.path);
  return (await settleAside(place, expected, key)) === 'gone';
}

/** What a removal cut off in the middle has left aside: ours is deleted, somebody else's put back. Throws if another file has taken its place. */
export async function settleAside(place: Place, expected: string, key: string): Promise<'gone' | 'put back'> {
  const aside = asideOf(place, key);
  const found = await hashFile(aside);
  if (found !== null && found !== expected) {
    await link(aside, place.path).catch((error) => {
      throw new Error(
        `${place.path} was changed while it was being removed; what it held is in ${aside} (${codeOf(error)})`,
      );
    });
  }
  await rm(aside, { force: true });
  await syncFolder(place.folder);
  return found === null || found === expected ? 'gone' : 'put back';
}

function asideOf(place: Place, key: string): string {
  return join(place.folder, DRAFT_FOLDER, `${prefixOf(place)}${key.slice(0, 32)}.aside`);
}

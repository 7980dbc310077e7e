import { hash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { access, copyFile, lstat, mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf, hashFile, type Sha256, syncFolder } from './file-content.ts';
import { NoPlace, type Place } from './locate-file.ts';

/** The hidden folder beside the file, on the same file system, in which drafts wait, and in which by default the records are kept. */
export const DRAFT_FOLDER = '.madrugada';

/** How the names of everything about one file begin; two actions on it meet there. */
export function prefixOf({ path }: Place): string {
  return `${hash('sha256', path).slice(0, 32)}-`;
}

/** What is kept of one action on one file. */
export class FileRecords {
  /** Where the previous content is, once the action has begun. */
  readonly previous: string;
  readonly #folder: string;
  readonly #base: string;

  constructor(place: Place, key: string, keep: string | undefined) {
    this.#folder = keep ?? join(place.folder, DRAFT_FOLDER);
    this.#base = join(this.#folder, `${prefixOf(place)}${key.slice(0, 32)}`);
    this.previous = `${this.#base}.previous`;
  }

  /** Has an execution begun? Then an effect of it cannot be ruled out. */
  hasBegun(): Promise<boolean> {
    return exists(`${this.#base}.begun`);
  }

  /** From its first undo on no execution takes effect. */
  isCalledOff(): Promise<boolean> {
    return exists(`${this.#base}.undoing`);
  }

  isUndone(): Promise<boolean> {
    return exists(`${this.#base}.undone`);
  }

  callOff(): Promise<void> {
    return this.#mark('undoing');
  }

  markUndone(): Promise<void> {
    return this.#mark('undone');
  }

  /** Copies the previous content, durably. False when the file has not the content `sha256` (any more). */
  async begin(place: Place, sha256: Sha256): Promise<boolean> {
    await makeFolder(this.#folder);
    if (sha256 !== null && (await hashFile(this.previous)) !== sha256) {
      const draft = `${this.#base}.${randomBytes(4).toString('hex')}.copy`;
      try {
        await copyDurably(place.path, draft);
        if ((await hashFile(draft)) !== sha256) return false;
        await rename(draft, this.previous);
      } finally {
        await rm(draft, { force: true });
      }
    }
    await this.#mark('begun');
    return true;
  }

  async #mark(what: 'begun' | 'undoing' | 'undone'): Promise<void> {
    await makeFolder(this.#folder);
    const handle = await open(`${this.#base}.${what}`, 'w');
    await handle.close();
    await syncFolder(this.#folder);
  }
}

/** Copies a file and waits until the copy is on disk. */
export async function copyDurably(from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const handle = await open(to, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Creates the folder where it is missing; refuses a symlink in its place. */
export async function makeFolder(folder: string): Promise<void> {
  if ((await mkdir(folder, { recursive: true, mode: 0o700 })) !== undefined) await syncFolder(join(folder, '..'));
  if (!(await lstat(folder)).isDirectory()) throw new NoPlace(`${folder} is not a folder`);
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

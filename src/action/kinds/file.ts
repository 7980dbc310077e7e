import { readFile, stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { MadrugadaError, messageOf } from '../../errors.ts';
import { failpoint } from '../../failpoint.ts';
import { throwIfOver } from '../deadline.ts';
import {
  type ActionContext,
  type ActionKind,
  NoEffect,
  type Precondition,
  type ReadBack,
  type Undo,
  UndoRefused,
} from '../define-action.ts';
import { codeOf, hashFile, hashOf, type Sha256, syncFolder } from './file-content.ts';
import { FileRecords } from './file-records.ts';
import { locateFile, NoPlace, type Place } from './locate-file.ts';
import { type Replaced, removeDrafts, removeFile, replaceFile, settleAside } from './replace-file.ts';

/** A file to be written whole. Every function is given the action's arguments. */
export interface FileAction<Args> {
  /** The folder that no action leaves. Only people who are trusted with the action write in it. */
  root: string;
  /** Relative to `root`, or absolute below it. Its folder must exist. */
  path(args: Args): string;
  content(args: Args): string | Uint8Array;
  /** SHA-256 in hexadecimal of the content that was shown at the proposal, and that alone may be replaced; null: there was no file. */
  replaces?(args: Args): string | null;
  /** A precondition of your own, beside or instead of `replaces`: why it may not be written, or undefined if it may. */
  precondition?(args: Args, present: PresentFile): string | undefined | Promise<string | undefined>;
  /** Where previous contents are kept, for ever as far as we are concerned; by default a hidden folder `.madrugada` beside the file. */
  keep?: string;
  /** Permission bits of a new file; 0o644 by default. A file that is replaced keeps its own. */
  mode?: number;
  /** Milliseconds after an executor's deadline in which its rename may still come; 5,000 by default. */
  settleMs?: number;
}

/** What stands at the path now. */
export interface PresentFile {
  /** Absolute, without symlinks. */
  path: string;
  /** Null: there is no file. */
  sha256: Sha256;
  bytes: number;
  /** Permission bits. */
  mode: number;
}

/** What was there before. Its content is kept beside the file under the action's key before the effect. */
export interface FileBefore {
  sha256: Sha256;
  bytes: number;
  mode: number;
}

/** What was written. */
export interface FileEffect {
  path: string;
  sha256: string;
  /** Where the previous content is; null: there was none. */
  previous: string | null;
}

const SETTLE_MS = 5_000;
const NEW_FILE_MODE = 0o644;
const SHOWN_BYTES = 4_000;
/** Two actions on one file may drive each other's draft away; soon one is alone. */
const TRIES = 50;
const LONGEST_WAIT_MS = 20;

/**
 * Writes a file whole: nobody ever sees half of it, and it survives a power cut once `execute` has returned. Written only over the content
 * that the precondition saw. A file system knows no keys, so `enforcesKey` is false; but the same content written twice is one effect, and an
 * executor that was frozen and overtaken cannot overwrite what came later (`replaceFile` says how, and what remains). The undo restores the
 * previous content, or removes the file, only while it holds what this action wrote.
 */
export function fileAction<Args>(declared: FileAction<Args>): ActionKind<Args, FileBefore, FileEffect> {
  if (declared.replaces === undefined && declared.precondition === undefined)
    throw new MadrugadaError(
      'a file action needs `replaces` or `precondition`: else it would overwrite what nobody has seen',
    );
  const action = new FileKind(declared);
  return {
    kind: 'file',
    enforcesKey: false,
    settleMs: declared.settleMs ?? SETTLE_MS,
    present: (args) => action.present(args),
    precondition: (args) => action.precondition(args),
    execute: (args, before, context) => action.execute(args, before, context),
    verify: (args, before, _effect, context) => action.verify(args, before, context),
    rollback: {
      kind: 'in-band',
      plan: 'Restore the kept previous content, or remove the file if there was none, while it holds what this action wrote.',
      undo: (undo, context) => action.undo(undo, context),
    },
  };
}

class FileKind<Args> {
  readonly #declared: FileAction<Args>;

  constructor(declared: FileAction<Args>) {
    this.#declared = declared;
  }

  async present(args: Args): Promise<unknown> {
    const found = await this.#look(await this.#locate(args));
    const content = bytesOf(this.#declared.content(args));
    const now = found.sha256 === null ? undefined : await contentOf(found.path);
    return {
      ...found,
      ...(now && { text: beginningOf(now) }),
      intended: { sha256: hashOf(content), bytes: content.byteLength, text: beginningOf(content) },
    };
  }

  async precondition(args: Args): Promise<Precondition<FileBefore>> {
    try {
      const found = await this.#look(await this.#locate(args));
      const why = this.#otherContent(args, found) ?? (await this.#declared.precondition?.(args, found));
      if (why !== undefined) return { holds: false, why };
      return { holds: true, before: { sha256: found.sha256, bytes: found.bytes, mode: found.mode } };
    } catch (error) {
      if (error instanceof NoPlace) return { holds: false, why: error.message };
      throw error;
    }
  }

  async execute(args: Args, before: FileBefore, { key, signal }: ActionContext): Promise<FileEffect> {
    const place = await this.#locate(args).catch((error) => {
      throw error instanceof NoPlace ? new NoEffect(error.message) : error;
    });
    const content = bytesOf(this.#declared.content(args));
    const effect = { path: place.path, sha256: hashOf(content), previous: null };
    const records = new FileRecords(place, key, this.#declared.keep);
    const mayHaveHappened = await records.hasBegun();
    const check = async () => {
      if (await records.isCalledOff()) throw new NoEffect('this action was undone; propose it again');
      throwIfOver(signal);
    };
    await check();
    return untilAlone(async () => {
      const now = await hashFile(place.path);
      if (now === effect.sha256) await finish(place);
      else if (now !== before.sha256 || !(await records.begin(place, before.sha256)))
        throw overtakenBy(place, now, mayHaveHappened);
      else {
        await failpoint('action.file.kept', place.path);
        const replacement = { expected: before.sha256, content, mode: before.mode, check };
        if ((await replaceFile(place, replacement)) !== 'replaced') return undefined;
      }
      return { ...effect, previous: before.sha256 === null ? null : records.previous };
    });
  }

  async verify(args: Args, before: FileBefore, { key }: ActionContext): Promise<ReadBack> {
    try {
      const place = await this.#locate(args);
      const records = new FileRecords(place, key, this.#declared.keep);
      const now = await hashFile(place.path);
      const intended = hashOf(bytesOf(this.#declared.content(args)));
      const evidence = { path: place.path, sha256: now, intended, before: before.sha256, kept: records.previous };
      const isUndone = now === before.sha256 && (await records.isUndone());
      if (now !== intended || isUndone)
        return { found: now === before.sha256 ? 'nothing' : 'something else', evidence };
      // The same content as before: that it was written cannot be told from its being there.
      return { found: 'effect', evidence, strength: before.sha256 === intended ? 'weak' : 'strong' };
    } catch (error) {
      return { found: 'unknown', evidence: { why: messageOf(error) } };
    }
  }

  async undo({ args, before }: Undo<Args, FileBefore, FileEffect>, { key, signal }: ActionContext): Promise<void> {
    const place = await this.#locate(args);
    const records = new FileRecords(place, key, this.#declared.keep);
    if (await records.isUndone()) return;
    const written = hashOf(bytesOf(this.#declared.content(args)));
    await records.callOff();
    await removeDrafts(place);
    await settleAside(place, written, key);
    await untilAlone(async () => {
      const now = await hashFile(place.path);
      if (now === before.sha256) return true;
      if (now !== written)
        throw new UndoRefused(
          `${place.path} ${told(now)}, not what this action wrote (${written}); the content before is in ${records.previous}`,
        );
      throwIfOver(signal);
      if (before.sha256 === null) return (await removeFile(place, written, key)) || undefined;
      return (await this.#restore(place, records, { before, written, signal })) === 'replaced' || undefined;
    });
    await failpoint('action.file.restored', place.path);
    await records.markUndone();
  }

  async #restore(
    place: Place,
    { previous }: FileRecords,
    { before, written, signal }: { before: FileBefore; written: string; signal: AbortSignal },
  ): Promise<Replaced> {
    if ((await hashFile(previous)) !== before.sha256)
      throw new Error(
        `the content before, ${before.sha256}, is no longer in ${previous}; restore ${place.path} from a backup`,
      );
    return replaceFile(place, {
      expected: written,
      content: { copyOf: previous },
      mode: before.mode,
      check: async () => throwIfOver(signal),
    });
  }

  #locate(args: Args): Promise<Place> {
    return locateFile(this.#declared.root, this.#declared.path(args));
  }

  async #look({ path }: Place): Promise<PresentFile> {
    const sha256 = await hashFile(path);
    if (sha256 === null) return { path, sha256, bytes: 0, mode: this.#declared.mode ?? NEW_FILE_MODE };
    const { size, mode } = await stat(path);
    return { path, sha256, bytes: size, mode: mode & 0o7777 };
  }

  #otherContent(args: Args, { path, sha256 }: PresentFile): string | undefined {
    const expected = this.#declared.replaces?.(args);
    if (expected === undefined || expected === sha256) return undefined;
    return `${path} ${told(sha256)}, not what was shown when this was proposed (${told(expected)})`;
  }
}

/** The effect is in place, perhaps by an execution that was cut off before it was durable. */
async function finish(place: Place): Promise<void> {
  await removeDrafts(place);
  await syncFolder(place.folder);
}

function overtakenBy(place: Place, now: Sha256, mayHaveHappened: boolean): Error {
  const why = `${place.path} ${told(now)}, and no longer what the precondition saw`;
  return mayHaveHappened
    ? new Error(`${why}; an earlier execution had begun, so that it cannot be said whether it took effect`)
    : new NoEffect(why);
}

async function untilAlone<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const result = await attempt();
    if (result !== undefined) return result;
    await delay(Math.random() * LONGEST_WAIT_MS);
  }
  throw new Error('other actions on the same file came first every time; it is as they left it');
}

function told(sha256: Sha256): string {
  return sha256 === null ? 'does not exist' : `holds ${sha256}`;
}

function bytesOf(content: string | Uint8Array): Uint8Array {
  return typeof content === 'string' ? Buffer.from(content) : content;
}

/** The first of a text, for people; undefined if it is not text. */
function beginningOf(content: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(content);
    return text.length > SHOWN_BYTES ? `${text.slice(0, SHOWN_BYTES)}…` : text;
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

/** What a file holds; undefined when it has gone since it was looked at. */
function contentOf(path: string): Promise<Uint8Array | undefined> {
  return readFile(path).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
}

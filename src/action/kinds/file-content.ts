import { createHash, hash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

/** What a file holds, told by its SHA-256 in hexadecimal; null: there is no file. */
export type Sha256 = string | null;

/** The system's name for what went wrong, such as `ENOENT`. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}

/** The hash of what is in the file now; null when it is absent. Throws for what is not a regular file, or cannot be read. */
export async function hashFile(path: string): Promise<Sha256> {
  const handle = await openIfThere(path);
  if (handle === undefined) return null;
  try {
    if (!(await handle.stat()).isFile()) throw new Error(`${path} is not a regular file`);
    const digest = createHash('sha256');
    for await (const chunk of handle.createReadStream({ autoClose: false })) digest.update(chunk);
    return digest.digest('hex');
  } finally {
    await handle.close();
  }
}

/** The SHA-256 of a content. */
export function hashOf(content: Uint8Array): string {
  return hash('sha256', content);
}

/** Non-blocking, so that a pipe put in the place of the file does not hold us up. */
async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Makes the names in a folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

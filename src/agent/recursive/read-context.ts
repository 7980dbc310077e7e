import { readdir, readFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { MadrugadaError } from '../../errors.ts';
import type { Context, Document } from '../sandbox/pack-context.ts';

/** A context is held in memory several times over; what a night reads from disk should be far below this. */
const MAX_CONTEXT_BYTES = 64 * 1024 * 1024;

/**
 * What `context` holds for one input: its own text, else the document it names, else every file of the folder, by name. Hidden files are left
 * out. Throws where there is none of it, or a file is not UTF-8 text.
 */
export async function readContext(
  input: { context?: string | undefined; document?: string | undefined },
  folder: string | undefined,
): Promise<Context> {
  if (input.context !== undefined) return input.context;
  if (folder === undefined)
    throw new MadrugadaError(
      'there is nothing to read: load the batch with --option documents=FOLDER, or give each line a "context"',
    );
  if (input.document !== undefined) return [await readDocument(folder, nameInside(input.document))];
  const names = await documentNames(folder);
  if (names.length === 0) throw new MadrugadaError(`folder ${folder} holds no file`);
  const documents = await Promise.all(names.map((name) => readDocument(folder, name)));
  const bytes = documents.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
  if (bytes > MAX_CONTEXT_BYTES)
    throw new MadrugadaError(`folder ${folder} holds ${bytes} bytes; a context has at most ${MAX_CONTEXT_BYTES}`);
  return documents;
}

async function documentNames(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .filter((name) => !name.split('/').some((part) => part.startsWith('.')))
    .sort(); // by code unit: the same on every machine, whatever its language
}

function nameInside(name: string): string {
  if (name.startsWith('/') || name.split('/').includes('..'))
    throw new MadrugadaError(`document ${name} must be the name of a file inside the folder of the documents`);
  return name;
}

async function readDocument(folder: string, name: string): Promise<Document> {
  const bytes = await readFile(join(folder, name));
  try {
    return { name, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    throw new MadrugadaError(
      `document ${name} is not text in UTF-8: convert it, or move it out of the folder ${folder}`,
    );
  }
}

import { lstat, realpath, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { codeOf } from './file-content.ts';

/** A file that an action may write, with every symlink resolved. */
export interface Place {
  folder: string;
  name: string;
  path: string;
}

/** Where an action must not write, or cannot; nothing has been touched. */
export class NoPlace extends Error {
  override name = 'NoPlace';
}

/**
 * Finds the file at `path` (relative to `root`, or below it), which need not exist; its folder must. Throws `NoPlace` when that is outside of
 * `root`, whether by `..` or through a symlink, or is something else than a regular file.
 */
export async function locateFile(root: string, path: string): Promise<Place> {
  const realRoot = await realpath(root).catch((error) =>
    refuse(`the root folder ${root} cannot be used (${codeOf(error)})`),
  );
  const given = resolve(root, path);
  if (path === '' || path.includes('\0') || path.endsWith(sep)) refuse(`"${path}" is not the name of a file`);
  if (!isBelow(resolve(root), given) && !isBelow(realRoot, given)) refuse(`${path} is outside of ${root}`);
  const target = await followed(given);
  const folder = await realpath(dirname(target)).catch((error) =>
    refuse(`the folder of ${path} cannot be used (${codeOf(error)})`),
  );
  const place = { folder, name: basename(target), path: join(folder, basename(target)) };
  if (!isBelow(realRoot, place.path)) refuse(`${path} leads out of ${root}, to ${place.path}`);
  const found = await lstat(place.path).catch((error) =>
    codeOf(error) === 'ENOENT' ? undefined : Promise.reject(error),
  );
  if (found !== undefined && !found.isFile()) refuse(`${path} is not a regular file`);
  return place;
}

/** The end of a chain of symlinks. One that leads to nothing is refused: what would be created there is nowhere declared. */
async function followed(path: string): Promise<string> {
  const found = await lstat(path).catch(() => undefined);
  if (!found?.isSymbolicLink()) return path;
  await stat(path).catch(() => refuse(`${path} is a symlink that leads to nothing`));
  return realpath(path);
}

function isBelow(root: string, path: string): boolean {
  const way = relative(root, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

function refuse(why: string): never {
  throw new NoPlace(why);
}

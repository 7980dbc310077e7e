import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';

/** The tags on the bill at `path`, whose torn last line is already cut. A bill that is no file, such as a pipe, has none. */
export async function billedTags(path: string): Promise<Set<string>> {
  const tags = new Set<string>();
  if (!(await stat(path)).isFile()) return tags;
  for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    const { tag }: { tag?: unknown } = JSON.parse(line);
    if (typeof tag === 'string') tags.add(tag);
  }
  return tags;
}

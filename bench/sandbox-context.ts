import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { licenceReports } from '../examples/licences/generate.ts';
import type { Document } from '../src/agent/sandbox/pack-context.ts';

/** The example reports, over and over. */
const STOCK = Buffer.from(
  Array<string>(20)
    .fill(
      licenceReports()
        .map(({ text }) => text)
        .join('\n'),
    )
    .join('\n'),
);

/** Documents of about `bytes` bytes in all, made of the example reports; those of another `edition` differ in each of them. */
export function documents(count: number, bytes: number, edition = 0): Document[] {
  const each = Math.floor(bytes / count);
  return Array.from({ length: count }, (_, index) => {
    const number = String(index + 1).padStart(2, '0');
    const from = (index * 9_770) % (STOCK.length - each);
    const head = `Edition ${edition}, document ${number}\n`;
    return {
      name: `document-${number}.txt`,
      text: head + wholeCharacters(STOCK.subarray(from, from + each - head.length)),
    };
  });
}

/** Writes documents into a folder below `parent`; its path. */
export function writeDocuments(parent: string, texts: Document[]): string {
  const folder = join(parent, 'documents');
  mkdirSync(folder);
  for (const { name, text } of texts) writeFileSync(join(folder, name), text);
  return folder;
}

/** Without the halves of characters at both ends. */
function wholeCharacters(bytes: Buffer): string {
  const first = bytes.findIndex((byte) => byte >> 6 !== 0b10);
  return new TextDecoder().decode(bytes.subarray(first), { stream: true });
}

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { readContext } from '../../../src/agent/recursive/read-context.ts';
import type { Document } from '../../../src/agent/sandbox/pack-context.ts';
import { testFolder } from '../../support/test-folder.ts';

/** A folder that holds these files. */
function folderOf(files: Record<string, string | Buffer>): string {
  const folder = testFolder();
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  return folder;
}

async function namesIn(folder: string): Promise<string[]> {
  return ((await readContext({}, folder)) as Document[]).map(({ name }) => name);
}

test('all files of the folder are read, those of folders in it as well, by name', async () => {
  const folder = folderOf({ 'b.txt': 'B', 'a/z.txt': 'Z', 'a/b/c.txt': 'C', 'a.txt': 'A' });
  expect(await readContext({}, folder)).toEqual([
    { name: 'a.txt', text: 'A' },
    { name: 'a/b/c.txt', text: 'C' },
    { name: 'a/z.txt', text: 'Z' },
    { name: 'b.txt', text: 'B' },
  ]);
});

test('names are sorted by their characters’ numbers, the same on every machine', async () => {
  expect(await namesIn(folderOf({ 'é.txt': '', 'z.txt': '', 'B.txt': '', 'a.txt': '', '10': '', '9': '' }))).toEqual([
    '10',
    '9',
    'B.txt',
    'a.txt',
    'z.txt',
    'é.txt',
  ]);
});

test('hidden files, and all files of hidden folders, are left out', async () => {
  expect(await namesIn(folderOf({ 'a.txt': '', '.env': 'KEY', '.git/config': '', 'b/.c/d.txt': '' }))).toEqual([
    'a.txt',
  ]);
});

test('a folder with nothing but hidden files holds no file', async () => {
  await expect(readContext({}, folderOf({ '.env': 'KEY' }))).rejects.toThrow(/^folder .* holds no file$/);
});

test('the document that the input names is the only one', async () => {
  const folder = folderOf({ 'a.txt': 'A', 'sub/b.txt': 'B' });
  expect(await readContext({ document: 'sub/b.txt' }, folder)).toEqual([{ name: 'sub/b.txt', text: 'B' }]);
});

test('a document that is not there is named', async () => {
  await expect(readContext({ document: 'missing.txt' }, folderOf({ 'a.txt': '' }))).rejects.toThrow('missing.txt');
});

for (const document of ['../secret.txt', 'a/../../secret.txt', '/etc/passwd', '..'])
  test(`a document called ${document} is not read: it must lie inside the folder`, async () => {
    const folder = folderOf({ 'secret.txt': 'S', 'inside/a.txt': 'A' });
    await expect(readContext({ document }, join(folder, 'inside'))).rejects.toThrow(
      `document ${document} must be the name of a file inside the folder`,
    );
  });

test('two dots in a name are just a name', async () => {
  expect(await readContext({ document: 'a..b.txt' }, folderOf({ 'a..b.txt': 'A' }))).toHaveLength(1);
});

test('a file that is not UTF-8 is refused by name', async () => {
  const folder = folderOf({ 'a.txt': 'A', 'sub/latin1.txt': Buffer.from('água', 'latin1') });
  await expect(readContext({}, folder)).rejects.toThrow(/^document sub\/latin1\.txt is not text in UTF-8: convert it/);
});

test('the input’s own context comes before everything else', async () => {
  const folder = folderOf({ 'a.txt': 'A' });
  expect(await readContext({ context: 'my own', document: 'a.txt' }, folder)).toBe('my own');
});

test('without a folder and without a context of its own there is nothing to read, which is said', async () => {
  await expect(readContext({ document: 'a.txt' }, undefined)).rejects.toThrow(
    /load the batch with --option documents=FOLDER, or give each line a "context"/,
  );
});

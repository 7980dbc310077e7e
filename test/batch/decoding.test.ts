import { Readable } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeText } from '../../src/batch/decode-text.ts';

/** The text of bytes that come in chunks of the given size. */
async function decoded(bytes: Buffer, chunkSize = bytes.length): Promise<string> {
  const chunks = [];
  for (let at = 0; at < bytes.length; at += chunkSize) chunks.push(bytes.subarray(at, at + chunkSize));
  let text = '';
  for await (const block of decodeText(Readable.from(chunks), 'list.csv')) text += block;
  return text;
}

test('text is the same in whatever chunks its bytes come', async () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'é', '😀', '\n', '\r\n', '\uFEFF') }).map((body) => `x${body}`);
  await fc.assert(
    fc.asyncProperty(text, fc.integer({ min: 1, max: 5 }), async (text, size) => {
      expect(await decoded(Buffer.from(text), size)).toBe(text);
    }),
  );
});

test('one byte-order mark is dropped, at the start and nowhere else', async () => {
  expect(await decoded(Buffer.from('\uFEFFa\n\uFEFFb\n'), 4)).toBe('a\n\uFEFFb\n');
});

test.each([
  ['UTF-16 with a mark', Buffer.from('\uFEFFitem\n1\n', 'utf16le')],
  ['big-endian UTF-16 with a mark', Buffer.from('\uFEFFitem\n1\n', 'utf16le').swap16()],
  ['UTF-16 without a mark', Buffer.from('item\n1\n', 'utf16le')],
])('%s is refused by name', async (_, bytes) => {
  await expect(decoded(bytes)).rejects.toThrow(/list\.csv, line 1: the file is UTF-16/);
});

test.each([1, 3, 1000])('the first byte that is not UTF-8 is named with its line, in chunks of %i', async (size) => {
  const bytes = Buffer.concat([Buffer.from('é\n\nágua\n'), Buffer.from('ok \xe1gua\n\xe1\n', 'latin1')]);
  await expect(decoded(bytes, size)).rejects.toThrow(/line 4: the byte 0xE1 is not UTF-8/);
});

test('a character cut off at the end of the file is refused', async () => {
  await expect(decoded(Buffer.from('a\n1 😀').subarray(0, -1))).rejects.toThrow(/line 2: the byte 0xF0/);
});

import { expect, test } from 'vitest';
import { MemoryImage } from '../../../src/agent/sandbox/memory-image.ts';

const PAGE = 4096;

function memory(pages: number): { buffer: ArrayBuffer; bytes: Uint8Array } {
  const buffer = new ArrayBuffer(pages * PAGE);
  return { buffer, bytes: new Uint8Array(buffer) };
}

test('what stood in a memory comes back: full pages, empty ones between them, and ones that are changed a little', () => {
  const { buffer, bytes } = memory(40);
  bytes.fill(7, 0, 2 * PAGE);
  bytes.fill(9, 20 * PAGE, 21 * PAGE);
  const image = new MemoryImage(buffer);
  const before = bytes.slice(0, 21 * PAGE);

  bytes[5] = 1;
  bytes.fill(1, 10 * PAGE, 11 * PAGE);
  bytes.fill(0, 20 * PAGE, 21 * PAGE);
  image.restore(buffer);

  expect(Buffer.from(bytes.subarray(0, 21 * PAGE)).equals(Buffer.from(before))).toBe(true);
});

test('the image is a copy, which later changes of the memory do not reach', () => {
  const { buffer, bytes } = memory(2);
  bytes[0] = 1;
  const image = new MemoryImage(buffer);
  bytes[0] = 2;
  image.restore(buffer);
  bytes[0] = 3;
  image.restore(buffer);

  expect(bytes[0]).toBe(1);
});

test('what lies behind the used part is left alone', () => {
  const { buffer, bytes } = memory(4);
  bytes[0] = 1;
  const image = new MemoryImage(buffer);
  bytes[3 * PAGE] = 5;
  image.restore(buffer);

  expect(bytes[3 * PAGE]).toBe(5);
});

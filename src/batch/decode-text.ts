import { isUtf8 } from 'node:buffer';
import { MadrugadaError } from '../errors.ts';

const NEWLINE = 0x0a;
const BYTE_ORDER_MARK = '\uFEFF';

/**
 * Decodes a file as strict UTF-8, in blocks of whole lines, without its byte-order mark. `name` is the file's, for errors.
 * Throws a MadrugadaError that names the line of the first byte which is not UTF-8.
 */
export async function* decodeText(bytes: AsyncIterable<Buffer>, name: string): AsyncGenerator<string> {
  const decoder = new LineDecoder(name);
  let unfinished: Buffer[] = [];
  for await (const chunk of bytes) {
    const end = chunk.lastIndexOf(NEWLINE) + 1;
    if (end > 0) {
      yield decoder.decode(Buffer.concat([...unfinished, chunk.subarray(0, end)]));
      unfinished = [];
    }
    if (end < chunk.length) unfinished.push(chunk.subarray(end));
  }
  if (unfinished.length > 0) yield decoder.decode(Buffer.concat(unfinished));
}

class LineDecoder {
  readonly #name: string;
  // A decoder that drops byte-order marks would drop one at the start of every block.
  readonly #utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  #linesBefore = 0;

  constructor(name: string) {
    this.#name = name;
  }

  decode(block: Buffer): string {
    const atStart = this.#linesBefore === 0;
    if (atStart && isWideEncoding(block)) this.#refuse(1, 'the file is UTF-16 or UTF-32');
    const text = this.#decodeOrRefuse(block);
    this.#linesBefore += countNewlines(block);
    return atStart && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
  }

  #decodeOrRefuse(block: Buffer): string {
    try {
      return this.#utf8.decode(block);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      const at = firstInvalidByte(block);
      const byte = block[at]?.toString(16).toUpperCase().padStart(2, '0');
      const line = this.#linesBefore + countNewlines(block.subarray(0, at)) + 1;
      return this.#refuse(line, `the byte 0x${byte} is not UTF-8 (Latin-1, perhaps)`);
    }
  }

  #refuse(line: number, why: string): never {
    throw new MadrugadaError(`${this.#name}, line ${line}: ${why}; save it as UTF-8 and try again`);
  }
}

/** UTF-16 and UTF-32 show themselves by a mark, or by the NUL bytes that plain characters have there. */
function isWideEncoding(block: Buffer): boolean {
  const mark = block.length >= 2 ? block.readUInt16BE(0) : 0;
  return mark === 0xfffe || mark === 0xfeff || block.subarray(0, 4).includes(0);
}

/** Halves the block to the bytes before the first that cannot be decoded; the block holds one. A character they end inside of is at fault itself. */
function firstInvalidByte(block: Buffer): number {
  let valid = 0;
  let invalid = block.length;
  while (invalid - valid > 1) {
    const middle = (valid + invalid) >> 1;
    try {
      // `stream` allows the prefix to end inside a character
      new TextDecoder('utf-8', { fatal: true }).decode(block.subarray(0, middle), { stream: true });
      valid = middle;
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      invalid = middle;
    }
  }
  while (!isUtf8(block.subarray(0, valid))) valid--;
  return valid;
}

function countNewlines(block: Buffer): number {
  let count = 0;
  for (let at = block.indexOf(NEWLINE); at !== -1; at = block.indexOf(NEWLINE, at + 1)) count++;
  return count;
}

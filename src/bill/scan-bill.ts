import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { BadLines } from '../batch/bad-lines.ts';
import { decodeText } from '../batch/decode-text.ts';
import { splitLines } from '../batch/json-lines.ts';
import { MadrugadaError, messageOf } from '../errors.ts';
import { type BillLine, parseSimulatorLine } from './simulator-line.ts';

/** A line of a bill with its number, from 1, and its text as it stands in the file. */
export type NumberedLine = BillLine & { readonly lineNo: number; readonly raw: string };

/** What a bill is, known when it has been read to its end. */
export type BillIdentity = {
  readonly sha256: string;
  readonly byteCount: number;
  readonly lineCount: number;
  /** The digests of the beginnings asked for, by their length in bytes; lengths beyond the file are absent. */
  readonly beginnings: ReadonlyMap<number, string>;
};

/** Reads a bill to its end. `lengths` are the beginnings to digest on the way. Throws a MadrugadaError that names every bad line. */
export async function identifyBill(file: string, lengths: readonly number[]): Promise<BillIdentity> {
  const digests = new Digests(lengths);
  let lineCount = 0;
  for await (const _ of parseLines(file, digests)) lineCount++;
  return { ...digests.end(), lineCount };
}

/** The lines of a bill. Throws a MadrugadaError when the file is no longer the one identified. */
export async function* readBill(file: string, identity: BillIdentity): AsyncGenerator<NumberedLine> {
  const digests = new Digests([]);
  yield* parseLines(file, digests);
  if (digests.end().sha256 !== identity.sha256) {
    throw new MadrugadaError(`${file} changed while it was imported; nothing was imported, try again`);
  }
}

async function* parseLines(file: string, digests: Digests): AsyncGenerator<NumberedLine> {
  const bad = new BadLines();
  for await (const { line, text } of splitLines(decodeText(digestedBytes(file, digests), file))) {
    if (text.trim() === '') continue;
    const parsed = parseLine(line, text, bad);
    if (parsed && bad.count === 0) yield parsed;
  }
  bad.throwIfAny(file);
}

function parseLine(line: number, text: string, bad: BadLines): NumberedLine | undefined {
  try {
    return { ...parseSimulatorLine(text), lineNo: line, raw: text };
  } catch (error) {
    bad.add(line, undefined, messageOf(error));
    return undefined;
  }
}

async function* digestedBytes(file: string, digests: Digests): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      digests.add(chunk);
      yield chunk;
    }
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw new MadrugadaError(`the bill ${file} cannot be read: ${error.message}`, 2, { cause: error });
  }
}

/** Digests a file, and on the way its beginnings of given lengths. */
class Digests {
  readonly #hash: Hash = createHash('sha256');
  readonly #lengths: number[];
  readonly #beginnings = new Map<number, string>();
  #byteCount = 0;

  constructor(lengths: readonly number[]) {
    this.#lengths = [...lengths].sort((a, b) => a - b);
  }

  add(chunk: Buffer): void {
    let rest = chunk;
    for (
      let next = this.#lengths[0];
      next !== undefined && next <= this.#byteCount + rest.length;
      next = this.#lengths[0]
    ) {
      rest = this.#take(rest, next - this.#byteCount);
      this.#beginnings.set(next, this.#hash.copy().digest('hex'));
      this.#lengths.shift();
    }
    this.#take(rest, rest.length);
  }

  end(): Omit<BillIdentity, 'lineCount'> {
    return { sha256: this.#hash.copy().digest('hex'), byteCount: this.#byteCount, beginnings: this.#beginnings };
  }

  #take(chunk: Buffer, length: number): Buffer {
    this.#hash.update(chunk.subarray(0, length));
    this.#byteCount += length;
    return chunk.subarray(length);
  }
}

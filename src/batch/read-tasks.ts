import { createReadStream } from 'node:fs';
import { extname } from 'node:path';
import { MadrugadaError } from '../errors.ts';
import { BadLines } from './bad-lines.ts';
import { itemOf, itemProblem, unstorable, type ValidateInput } from './check-task.ts';
import { readCsv } from './csv-rows.ts';
import { decodeText } from './decode-text.ts';
import { readJsonLines } from './json-lines.ts';
import type { RawTask } from './raw-task.ts';

/** A task ready to be loaded. `inputJson` is a JSON object; `position` counts from 1. */
export type NewTask = { readonly position: number; readonly item: string; readonly inputJson: string };

type FileFormat = 'jsonl' | 'csv';

/**
 * Reads a batch file as a stream: JSON Lines or CSV by its ending, else by its first character; "-" is standard input. Column `item` names
 * the task, all others are its input. Yields tasks until the first bad line; having read the whole file, throws a MadrugadaError that names
 * every bad line (the first 20, then a count). Throws one too for a file that cannot be read, is not UTF-8, or holds no task.
 */
export async function* readTasks(file: string, validate: ValidateInput): AsyncGenerator<NewTask> {
  const name = file === '-' ? 'standard input' : file;
  const bad = new BadLines();
  const firstLines = new Map<string, number>();
  let position = 0;
  for await (const raw of readRaw(file, name, bad)) {
    await judge(raw, firstLines, validate, bad);
    if (bad.count === 0) yield { position: ++position, item: itemOf(raw.item) ?? '', inputJson: raw.inputJson };
  }
  bad.throwIfAny(name);
  if (position === 0) throw new MadrugadaError(`${name} holds no task; nothing was loaded`);
}

async function judge(
  { line, item: given, input }: RawTask,
  firstLines: Map<string, number>,
  validate: ValidateInput,
  bad: BadLines,
): Promise<void> {
  const item = itemOf(given);
  const problem = itemProblem(given) ?? unstorable(input, 'input');
  if (problem !== undefined) {
    bad.add(line, item, problem);
    return;
  }
  if (item === undefined) return;
  const earlier = firstLines.get(item);
  if (earlier === undefined) firstLines.set(item, line);
  else bad.add(line, item, `duplicate of line ${earlier}`);
  for (const why of await validate(input)) bad.add(line, item, why);
}

async function* readRaw(file: string, name: string, bad: BadLines): AsyncGenerator<RawTask> {
  const blocks = decodeText(readBytes(file), name);
  const first = await nextFilled(blocks);
  if (first === undefined) return;
  const all = startingWith(first, blocks);
  const format = formatByEnding(file) ?? (first.trimStart().startsWith('{') ? 'jsonl' : 'csv');
  yield* format === 'jsonl' ? readJsonLines(all, bad) : readCsv(all, bad);
}

function formatByEnding(file: string): FileFormat | undefined {
  switch (extname(file).toLowerCase()) {
    case '.jsonl':
    case '.ndjson':
      return 'jsonl';
    case '.csv':
      return 'csv';
    default:
      return undefined;
  }
}

async function* readBytes(file: string): AsyncGenerator<Buffer> {
  try {
    yield* file === '-' ? process.stdin : createReadStream(file);
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw new MadrugadaError(`${file} cannot be read: ${error.message}`, 2, { cause: error });
  }
}

/** The next block that is not blank, with the blank ones before it, so that lines keep their numbers. */
async function nextFilled(blocks: AsyncGenerator<string>): Promise<string | undefined> {
  let text = '';
  for (let next = await blocks.next(); !next.done; next = await blocks.next()) {
    text += next.value;
    if (text.trim() !== '') return text;
  }
  return undefined;
}

async function* startingWith(first: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield first;
  yield* rest;
}

import { messageOf } from '../errors.ts';
import type { BadLines } from './bad-lines.ts';
import { parseKeepingNumbers } from './exact-json.ts';
import type { RawTask } from './raw-task.ts';

/** Reads JSON Lines: one object a line. Blank lines are skipped, and counted. Lines that are no object go to `bad`. */
export async function* readJsonLines(blocks: AsyncIterable<string>, bad: BadLines): AsyncGenerator<RawTask> {
  for await (const { line, text } of splitLines(blocks)) {
    if (text.trim() === '') continue;
    const task = parseLine(line, text, bad);
    if (task) yield task;
  }
}

/** The lines of blocks of whole lines, numbered from 1. */
export async function* splitLines(blocks: AsyncIterable<string>): AsyncGenerator<{ line: number; text: string }> {
  let line = 0;
  for await (const block of blocks) {
    const texts = block.split('\n');
    if (texts.at(-1) === '') texts.pop();
    for (const text of texts) yield { line: ++line, text };
  }
}

function parseLine(line: number, text: string, bad: BadLines): RawTask | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) {
      bad.add(line, undefined, `not a JSON object; one object a line, such as {"item": "1", "question": "..."}`);
      return undefined;
    }
    const { item, ...input } = value;
    const { item: _, ...exactInput } = parseKeepingNumbers(text) as Record<string, unknown>;
    return { line, item, input, inputJson: JSON.stringify(exactInput) };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    bad.add(line, undefined, `invalid JSON: ${messageOf(error)}`);
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

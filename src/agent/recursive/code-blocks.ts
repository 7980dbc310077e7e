import { parseBlock } from '../sandbox/rewrite.ts';

const OPENING = /^ {0,3}(`{3,}|~{3,})[ \t]*([\w+-]*)[^`]*$/;
const RUN = new Set(['js', 'javascript', 'repl', 'mjs']);

/**
 * The fenced blocks of a message that are to be run, in order: those marked js, javascript or repl; without any, those without a mark. A
 * block ends at the first fence after which it parses, so that prompts with fences of their own do not cut it; a block without an end is none.
 */
export function codeBlocks(message: string): string[] {
  const lines = message.split('\n');
  const marked: string[] = [];
  const unmarked: string[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const [, fence, mark = ''] = OPENING.exec(lines[at]?.trimEnd() ?? '') ?? [];
    if (fence === undefined) continue;
    const isCode = RUN.has(mark.toLowerCase());
    const end = endOfBlock(lines, at + 1, fence, isCode);
    if (end === undefined) break;
    const code = lines.slice(at + 1, end).join('\n');
    if (isCode) marked.push(code);
    else if (mark === '') unmarked.push(code);
    at = end;
  }
  return marked.length > 0 ? marked : unmarked;
}

function endOfBlock(lines: string[], from: number, fence: string, isCode: boolean): number | undefined {
  const ends = lines.flatMap((line, at) => (at >= from && isClosing(line, fence) ? [at] : []));
  if (!isCode || ends.length < 2) return ends[0];
  return ends.find((end) => parses(lines.slice(from, end).join('\n'))) ?? ends[0];
}

function isClosing(line: string, fence: string): boolean {
  const text = line.trim();
  return text.length >= fence.length && text === (fence[0] ?? '').repeat(text.length);
}

function parses(code: string): boolean {
  try {
    parseBlock(code);
    return true;
  } catch {
    return false;
  }
}

import type { IndexCache } from './index-cache.ts';
import { type MessageRequest, textOf } from './message-request.ts';

const DOCUMENT_OPEN = '<document';
const DOCUMENT_CLOSE = '</document>';
const QUESTION_OPEN = '<question>';
const QUESTION_CLOSE = '</question>';

/**
 * The text of the answer, the same for the same request: the best-matching sentence of the given text. The text stands
 * in `<document>` tags anywhere in the request and the question in the last `<question>` tag of the last user message;
 * without tags the last line of that message is the question and the lines before it are the text.
 * With no text, or none that shares a word with the question, the answer is a sentence named after `requestDigest`.
 */
export function answerText(request: MessageRequest, requestDigest: string, indexes: IndexCache): string {
  const prompt = textOf(request.messages.findLast((message) => message.role === 'user')?.content);
  const { question, rest } = splitQuestion(prompt);
  const documents = documentsOf([textOf(request.system), ...request.messages.map(({ content }) => textOf(content))]);
  const text = documents === '' ? rest : documents;
  const found = text === '' || question === '' ? undefined : indexes.of(text).bestFor(question);
  return found ?? `The given text holds no answer; this is simulated answer ${requestDigest.slice(0, 12)}.`;
}

function splitQuestion(prompt: string): { question: string; rest: string } {
  const open = prompt.lastIndexOf(QUESTION_OPEN);
  if (open >= 0) {
    const close = prompt.indexOf(QUESTION_CLOSE, open);
    const end = close < 0 ? prompt.length : close;
    return { question: prompt.slice(open + QUESTION_OPEN.length, end).trim(), rest: prompt.slice(0, open).trim() };
  }
  const trimmed = prompt.trim();
  const lastLine = trimmed.lastIndexOf('\n') + 1;
  return { question: trimmed.slice(lastLine), rest: trimmed.slice(0, lastLine).trim() };
}

/** By `indexOf`, not by a pattern: prompts reach 200 KB and an unclosed tag must not cost quadratic time. */
function documentsOf(texts: readonly string[]): string {
  const documents: string[] = [];
  for (const text of texts) {
    let from = text.indexOf(DOCUMENT_OPEN);
    while (from >= 0) {
      const start = text.indexOf('>', from) + 1;
      const end = start === 0 ? -1 : text.indexOf(DOCUMENT_CLOSE, start);
      if (end < 0) break;
      documents.push(text.slice(start, end).trim());
      from = text.indexOf(DOCUMENT_OPEN, end + DOCUMENT_CLOSE.length);
    }
  }
  return documents.join('\n');
}

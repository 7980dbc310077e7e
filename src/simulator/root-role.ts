import { type MessageRequest, textOf } from './message-request.ts';
import { rootTurn } from './root-program.ts';

/** Words that stand in the system prompt of every root request and of no other. */
const ROOT_WORDS = 'JavaScript REPL';
const QUESTION = /<question>(.*?)<\/question>/s;

/** Whether `request` asks for the next program of a recursive agent rather than for an answer from a text. */
export function isRootRequest(request: MessageRequest): boolean {
  return textOf(request.system).includes(ROOT_WORDS);
}

/**
 * The reply to a root request: a sentence and one fenced program. It depends on nothing but the question, which stands
 * in the first user message, and the number of turns already taken, never on what the earlier programs printed.
 */
export function rootText({ messages }: MessageRequest): string {
  const task = textOf(messages.find(({ role }) => role === 'user')?.content);
  const question = (QUESTION.exec(task)?.[1] ?? task).trim();
  const turn = messages.filter(({ role }) => role === 'assistant').length + 1;
  const { prose, code } = rootTurn(question, turn);
  return `${prose}\n\n\`\`\`js\n${code}\n\`\`\``;
}

import type {
  Conversation,
  ConversationCall,
  Recursion,
  SubCall,
  TaskConversation,
  Turn,
} from '../agent/recursive/conversation.ts';
import { callsOf } from '../agent/recursive/conversation.ts';
import { citedAnswer } from '../agent/recursive/gate.ts';
import type { ShownTask } from '../batch/show-task.ts';

/** Characters of a prompt or an answer that are shown without `--bodies`. */
const SHOWN_CHARS = 200;
/** Lines at the beginning and at the end of what a turn has printed that are shown without `--bodies`. */
const SHOWN_LINES = 20;
const RULE_WIDTH = 80;

/** The conversation as data for `--json`; without `whole`, prompts and answers of sub-calls are shortened. */
export function conversationDocument(conversation: TaskConversation, whole: boolean): object {
  return documentOf(conversation, whole);
}

function documentOf<T extends Conversation>(conversation: T, whole: boolean): T {
  const turns = conversation.turns.map((turn) => ({
    ...turn,
    sub_calls: turn.sub_calls.map(({ prompt, answer, ...call }) => ({
      ...call,
      prompt: whole ? prompt : shorten(prompt),
      prompt_chars: prompt.length,
      answer: whole || answer === null ? answer : shorten(answer),
      answer_chars: answer?.length ?? null,
    })),
    recursions: turn.recursions.map((recursion) => documentOf(recursion, whole)),
  }));
  return { ...conversation, turns };
}

/** The conversation of a task, turn by turn, as lines for a person. */
export function conversationLines(conversation: TaskConversation, task: ShownTask, whole: boolean): string[] {
  const { set_aside: setAside, others } = conversation;
  return [
    `conversation: ${figures(conversation)}`,
    ...(setAside.length === 0 ? [] : [`not part of it, set aside to be paid again: ${list(setAside)}`]),
    ...(others.length === 0 ? [] : [`without a place in it: ${list(others)}`]),
    ...openingLines(conversation),
    ...conversation.turns.flatMap((turn) => turnLines(turn, whole)),
    '',
    ...endLines(task),
  ];
}

function figures(conversation: Conversation): string {
  const calls = callsOf(conversation);
  const count = (paid: ConversationCall['paid']) => calls.filter((call) => call.paid === paid).length;
  const unanswered = count(null);
  const kinds = [`${count('live')} live`, `${count('replayed')} replayed`];
  if (unanswered > 0) kinds.push(`${unanswered} without an answer`);
  return `${counted(conversation.turns.length, 'turn')}, ${counted(calls.length, 'call')} (${kinds.join(', ')})`;
}

function openingLines({ question, context, context_digest: digest }: Conversation): string[] {
  return [
    ...(question === null ? [] : ['question', ...quoted(question)]),
    ...(context === null ? [] : [`context${state(digest)}`, ...quoted(context)]),
  ];
}

function turnLines({ turn, call, wrote, is_cut, told, ...rest }: Turn, whole: boolean): string[] {
  return [
    '',
    rule(`turn ${turn}${call === null ? '' : `: call ${call.seq}, ${call.model ?? 'no model'}, ${payment(call)}`}`),
    ...(call === null ? [] : dispatchLines(call)),
    ...(wrote === null ? ['the root model has not answered'] : quoted(wrote)),
    ...(is_cut ? ['cut off at max_tokens, and not run'] : []),
    ...rest.sub_calls.flatMap((sub) => subCallLines(sub, whole)),
    ...rest.recursions.flatMap((recursion) => recursionLines(recursion, whole)),
    ...(told === null
      ? rest.state === null
        ? []
        : [`the code came to its end${state(rest.state)}`]
      : [`the REPL answered${state(rest.state)}`, ...quoted(whole ? told : middleCut(told))]),
  ];
}

function subCallLines(sub: SubCall, whole: boolean): string[] {
  return [
    `sub-call ${sub.seq}, ${sub.model ?? 'no model'}, ${payment(sub)}`,
    ...indented(dispatchLines(sub)),
    ...indented(marked('> ', sub.prompt, whole)),
    ...(sub.answer === null ? [] : indented(marked('< ', sub.answer, whole))),
  ];
}

/** A prompt or an answer under its mark: whole, or shortened and with its length. */
function marked(mark: string, text: string, whole: boolean): string[] {
  if (!whole) return [`${mark}${shorten(text)} (${counted(text.length, 'character')})`];
  return text.split('\n').map((line, index) => (index === 0 ? mark : ' '.repeat(mark.length)) + line);
}

function recursionLines(recursion: Recursion, whole: boolean): string[] {
  return [
    `${recursion.name}: ${figures(recursion)}`,
    ...indented([
      ...openingLines(recursion),
      ...recursion.turns.flatMap((turn) => turnLines(turn, whole)),
      recursion.has_ended ? `${recursion.name} has ended` : `${recursion.name} has not ended`,
    ]),
  ];
}

/** What ended the last turn. */
function endLines({ state, result, failure }: ShownTask): string[] {
  if (state === 'completed') return ['the answer', ...answerLines(result)];
  if (failure !== null) return [`the task failed (${failure.kind})`, ...quoted(failure.message ?? '')];
  return [`no answer yet: the task is ${state}`];
}

function answerLines(result: unknown): string[] {
  const { data: answer } = citedAnswer.safeParse(result);
  if (answer === undefined) return quoted(JSON.stringify(result, null, 2));
  const citations = answer.citations.flatMap(({ document, quote }) => [`cited from ${document}`, ...quoted(quote)]);
  return [...quoted(answer.text), ...citations];
}

function payment({ paid, paid_in_attempt, dispatches }: ConversationCall): string {
  if (paid === 'live') return 'live';
  if (paid === 'replayed') return `replayed, paid in attempt ${paid_in_attempt}`;
  return `no answer: ${dispatches.at(-1)?.kind ?? 'not sent'}`;
}

/** The dispatches of a call, where there is more to say of them than that one was sent and has brought the answer. */
function dispatchLines({ dispatches }: ConversationCall): string[] {
  if (dispatches.length === 1 && dispatches[0]?.answers) return [];
  return dispatches.map(({ dispatch, attempt, kind, answers, status, error }) => {
    const what = [`${kind}${answers ? ', answers' : ''}`, ...(status === null ? [] : [`status ${status}`])].join(', ');
    return `dispatch ${dispatch} in attempt ${attempt}: ${what}${error === null ? '' : `: ${error}`}`;
  });
}

/** The beginning, on one line. */
function shorten(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length <= SHOWN_CHARS ? line : `${line.slice(0, SHOWN_CHARS)}…`;
}

function middleCut(text: string): string {
  const lines = text.split('\n');
  const cut = lines.length - 2 * SHOWN_LINES;
  if (cut <= 1) return text;
  const note = `[… ${cut} lines more; --bodies shows them …]`;
  return [...lines.slice(0, SHOWN_LINES), note, ...lines.slice(-SHOWN_LINES)].join('\n');
}

function state(digest: string | null): string {
  return digest === null ? '' : ` (state ${digest.slice(0, 12)})`;
}

/** With a bar at the left: none of these lines is the program's own. */
function quoted(text: string): string[] {
  return text.split('\n').map((line) => `│ ${line}`.trimEnd());
}

function indented(lines: string[]): string[] {
  return lines.map((line) => `  ${line}`.trimEnd());
}

function rule(text: string): string {
  return `── ${text} ${'─'.repeat(Math.max(0, RULE_WIDTH - text.length - 4))}`;
}

function list(calls: number[]): string {
  return `${calls.length === 1 ? 'call' : 'calls'} ${calls.join(', ')}`;
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

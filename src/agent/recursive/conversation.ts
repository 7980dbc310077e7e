import type { ShownCall, ShownStep, ShownTask } from '../../batch/show-task.ts';
import { readRequest, readResponse, type SaidToModel } from './message-bodies.ts';
import { readFirstMessage } from './system-prompt.ts';

/** One HTTP request for a call, and what became of it. */
export type ConversationDispatch = Pick<ShownCall, 'dispatch' | 'attempt' | 'kind' | 'answers' | 'status' | 'error'>;

/** A call of a conversation. Keys of all these types are those of `task show --json`. */
export interface ConversationCall {
  seq: number;
  model: string | null;
  /** `live`: its answer was paid in the task's latest attempt; `replayed`: in an earlier one; null: it has no answer. */
  paid: 'live' | 'replayed' | null;
  paid_in_attempt: number | null;
  dispatches: ConversationDispatch[];
}

export interface SubCall extends ConversationCall {
  prompt: string;
  /** Null without an answer. */
  answer: string | null;
}

export interface Turn {
  turn: number;
  /** The root model's; null where the journal has only what was asked in this turn. */
  call: ConversationCall | null;
  /** Prose and code of the root model; null without an answer. */
  wrote: string | null;
  /** Cut off at its `max_tokens`, and not run. */
  is_cut: boolean;
  sub_calls: SubCall[];
  recursions: Recursion[];
  /** Digest of the REPL after the turn: there when its code came to an end. */
  state: string | null;
  /** What the root model was told in return; null in the last turn. */
  told: string | null;
}

/** A root model with its REPL, in the order in which they spoke. */
export interface Conversation {
  question: string | null;
  /** The description of the context that the root model got. */
  context: string | null;
  context_digest: string | null;
  turns: Turn[];
}

/** A conversation that the code of a turn has started on a slice. */
export interface Recursion extends Conversation {
  name: string;
  has_ended: boolean;
}

export interface TaskConversation extends Conversation {
  /** Calls that a person has ordered to be paid again: they take no part in it. */
  set_aside: number[];
  /** Calls that have no place in it. */
  others: number[];
}

interface Journal {
  /** By scope. */
  calls: Map<string, ReadCall[]>;
  steps: readonly ShownStep[];
}

interface ReadCall {
  call: ConversationCall;
  request: string;
  said: SaidToModel | undefined;
  reply: { text: string; isCut: boolean } | undefined;
}

/** Makes the conversation of a task out of its journal: dispatches with their bodies, and steps. Undefined when it has not begun. */
export function conversationOf(task: Pick<ShownTask, 'attempts' | 'calls' | 'steps'>): TaskConversation | undefined {
  if (task.calls.length === 0) return undefined;
  const latestAttempt = Math.max(...task.attempts.map(({ number }) => number));
  const bySeq = Map.groupBy(
    task.calls.filter(({ setAside }) => !setAside),
    ({ seq }) => seq,
  );
  const calls = new Map<string, ReadCall[]>();
  for (const [seq, dispatches] of bySeq) {
    const scope = dispatches[0]?.scope ?? '';
    calls.set(scope, [...(calls.get(scope) ?? []), readCall(seq, dispatches, latestAttempt)]);
  }
  const conversation = conversationIn({ calls, steps: task.steps }, '');
  const placed = new Set(callsOf(conversation).map(({ seq }) => seq));
  return {
    ...conversation,
    set_aside: [...new Set(task.calls.flatMap(({ seq, setAside }) => (setAside ? [seq] : [])))],
    others: [...bySeq.keys()].filter((seq) => !placed.has(seq)),
  };
}

/** All calls of a conversation, those of conversations within it included. */
export function callsOf({ turns }: Conversation): ConversationCall[] {
  return turns.flatMap(({ call, sub_calls, recursions }) => [
    ...(call === null ? [] : [call]),
    ...sub_calls,
    ...recursions.flatMap(callsOf),
  ]);
}

function readCall(seq: number, rows: ShownCall[], latestAttempt: number): ReadCall {
  const answering = rows.find(({ answers }) => answers);
  const { model = null, request = '' } = rows[0] ?? {};
  return {
    call: {
      seq,
      model,
      paid: answering === undefined ? null : answering.attempt === latestAttempt ? 'live' : 'replayed',
      paid_in_attempt: answering?.attempt ?? null,
      dispatches: rows.map(({ dispatch, attempt, kind, answers, status, error }) => {
        return { dispatch, attempt, kind, answers, status, error };
      }),
    },
    request,
    said: readRequest(request),
    reply: answering && readResponse(answering.response ?? ''),
  };
}

/** The conversation whose root calls are in `scope`. */
function conversationIn(journal: Journal, scope: string): Conversation {
  const roots = new Map<number, ReadCall>();
  for (const root of journal.calls.get(scope) ?? []) {
    if (root.said !== undefined && !roots.has(root.said.replies + 1)) roots.set(root.said.replies + 1, root);
  }
  const first = [...roots.values()][0]?.said?.first;
  const opening = first === undefined ? undefined : readFirstMessage(first);
  const lastTurn = Math.max(0, ...roots.keys(), ...numbersBelow(journal, scope, 'turn'));
  return {
    question: opening?.question ?? first ?? null,
    context: opening?.context ?? null,
    context_digest: stateAt(journal, scope, 'context'),
    turns: Array.from({ length: lastTurn }, (_, index) => turnOf(journal, scope, index + 1, roots)),
  };
}

function turnOf(journal: Journal, scope: string, turn: number, roots: Map<number, ReadCall>): Turn {
  const root = roots.get(turn);
  const below = within(scope, `turn ${turn}`);
  return {
    turn,
    call: root?.call ?? null,
    wrote: root?.reply?.text ?? null,
    is_cut: root?.reply?.isCut ?? false,
    sub_calls: (journal.calls.get(below) ?? []).map(({ call, request, said, reply }) => {
      return { ...call, prompt: said?.last ?? request, answer: reply?.text ?? null };
    }),
    recursions: numbersBelow(journal, below, 'recurse').map((number) => recursionIn(journal, below, number)),
    state: stateAt(journal, scope, `turn ${turn}`),
    told: roots.get(turn + 1)?.said?.last ?? null,
  };
}

function recursionIn(journal: Journal, scope: string, number: number): Recursion {
  const name = `recurse ${number}`;
  const hasEnded = journal.steps.some((step) => step.scope === scope && step.name === `${name} ended`);
  return { name, has_ended: hasEnded, ...conversationIn(journal, within(scope, name)) };
}

/** The numbers N of the scopes `<what> N` right below `scope` in which, or below which, there are calls. */
function numbersBelow(journal: Journal, scope: string, what: string): number[] {
  const start = within(scope, `${what} `);
  const numbers = [...journal.calls.keys()].flatMap((name) => {
    const [number] = (name.startsWith(start) && /^\d+(?=\/|$)/.exec(name.slice(start.length))) || [];
    return number === undefined ? [] : [Number(number)];
  });
  return [...new Set(numbers)].sort((a, b) => a - b);
}

function stateAt({ steps }: Journal, scope: string, name: string): string | null {
  return steps.find((step) => step.kind === 'checkpoint' && step.scope === scope && step.name === name)?.state ?? null;
}

function within(scope: string, name: string): string {
  return scope === '' ? name : `${scope}/${name}`;
}

import { describe, expect, test } from 'vitest';
import { type Conversation, callsOf, conversationOf } from '../../../src/agent/recursive/conversation.ts';
import { firstMessage, readFirstMessage } from '../../../src/agent/recursive/system-prompt.ts';
import type { ShownCall, ShownStep } from '../../../src/batch/show-task.ts';

const OPENING = firstMessage('Quem licencia?', [{ name: 'a.txt', text: 'O órgão.' }]);

/** A dispatch as the journal has it: charged, answering and of the first attempt unless it is said otherwise. */
function dispatch(seq: number, scope: string, body: object, row: Partial<ShownCall> = {}): ShownCall {
  return {
    ...{ seq, scope, dispatch: 1, attempt: 1, model: 'claude-opus-4-6', kind: 'charged', answers: true, status: 200 },
    ...{ error: null, costUsd: '0.01', inputTokens: 1, outputTokens: 1, sentAt: new Date(0), receivedAt: new Date(0) },
    ...{
      askedModel: 'claude-opus-4-6',
      providerRequestId: null,
      setAside: false,
      request: JSON.stringify(body),
      response: reply(`reply ${seq}`),
    },
    ...row,
  };
}

function reply(text: string, stop = 'end_turn'): string {
  return JSON.stringify({ content: [{ type: 'text', text }], stop_reason: stop });
}

/** A call of a root model that has been told all of `told` so far. */
function root(seq: number, told: string[], row: Partial<ShownCall> = {}, scope = ''): ShownCall {
  const messages = told.flatMap((content, index) => [
    ...(index === 0 ? [] : [{ role: 'assistant', content: [{ type: 'text', text: 'wrote before' }] }]),
    { role: 'user', content: [{ type: 'text', text: content, cache_control: { type: 'ephemeral' } }] },
  ]);
  return dispatch(seq, scope, { system: 'you answer', messages }, row);
}

function sub(seq: number, scope: string, prompt: string, row: Partial<ShownCall> = {}): ShownCall {
  return dispatch(seq, scope, { messages: [{ role: 'user', content: prompt }] }, { model: 'claude-haiku-4-5', ...row });
}

function checkpoint(scope: string, name: string, state: string): ShownStep {
  return { scope, kind: 'checkpoint', name, attempt: 1, state };
}

/** The conversation of these calls, of which there must be one; `attempts` is the number of attempts of the task. */
function conversation(calls: ShownCall[], steps: ShownStep[] = [], attempts = 1) {
  const made = conversationOf({ calls, steps, attempts: attemptsUpTo(attempts) });
  if (made === undefined) throw new Error('there is no conversation');
  return made;
}

function attemptsUpTo(count: number) {
  const ending = {
    slot: 's',
    startedAt: new Date(0),
    endedAt: null,
    ending: null,
    replayed: null,
    sent: 0,
    error: null,
  };
  return Array.from({ length: count }, (_, index) => ({ ...ending, number: index + 1 }));
}

function paymentsOf(made: Conversation): string[] {
  return callsOf(made).map(({ seq, paid, paid_in_attempt }) => `${seq} ${paid} ${paid_in_attempt}`);
}

test('a task that has sent nothing has no conversation', () => {
  expect(conversationOf({ calls: [], steps: [], attempts: attemptsUpTo(1) })).toBeUndefined();
});

describe('a conversation', () => {
  const calls = [
    root(1, [OPENING]),
    root(2, [OPENING, 'told 1']),
    sub(3, 'turn 2', 'read this'),
    sub(4, 'turn 2', 'read that'),
    root(5, [OPENING, 'told 1', 'told 2']),
  ];
  const steps = [checkpoint('', 'context', 'digest'), checkpoint('', 'turn 2', 'after two')];

  test('begins with the question and the description of the context', () => {
    expect(conversation(calls, steps)).toMatchObject({
      question: 'Quem licencia?',
      context: expect.stringContaining('- a.txt (8)'),
      context_digest: 'digest',
    });
  });

  test('has what the root model wrote in each turn, and what it was told in return', () => {
    const { turns } = conversation(calls, steps);
    expect(turns.map(({ turn, call, wrote, told }) => [turn, call?.seq, wrote, told])).toEqual([
      [1, 1, 'reply 1', 'told 1'],
      [2, 2, 'reply 2', 'told 2'],
      [3, 5, 'reply 5', null],
    ]);
  });

  test('has the sub-calls in the turn whose code made them', () => {
    const { turns } = conversation(calls, steps);
    expect(turns.map(({ sub_calls }) => sub_calls.map(({ seq, prompt, answer }) => [seq, prompt, answer]))).toEqual([
      [],
      [
        [3, 'read this', 'reply 3'],
        [4, 'read that', 'reply 4'],
      ],
      [],
    ]);
  });

  test('has the state of the REPL after a turn whose code came to its end', () => {
    expect(conversation(calls, steps).turns.map(({ state }) => state)).toEqual([null, 'after two', null]);
  });
});

describe('what was paid when', () => {
  test('is live in the latest attempt, and replayed from an earlier one', () => {
    const calls = [
      root(1, [OPENING]),
      sub(2, 'turn 1', 'read', { attempt: 2 }),
      root(3, [OPENING, 'told'], { attempt: 3 }),
    ];
    expect(paymentsOf(conversation(calls, [], 3))).toEqual(['1 replayed 1', '2 replayed 2', '3 live 3']);
  });

  test('goes by the dispatch that brought the answer, and all dispatches are there', () => {
    const refused = { kind: 'refused', answers: false, status: 529, error: 'overloaded', response: 'no message' };
    const calls = [
      root(1, [OPENING], refused),
      root(1, [OPENING], { dispatch: 2, kind: 'in doubt', answers: false, status: null, response: null }),
      root(1, [OPENING], { dispatch: 3, attempt: 2, response: reply('at last') }),
    ];
    const made = conversation(calls, [], 2);
    expect(paymentsOf(made)).toEqual(['1 live 2']);
    expect(made.turns[0]).toMatchObject({
      wrote: 'at last',
      call: {
        dispatches: [
          { dispatch: 1, attempt: 1, kind: 'refused', answers: false, status: 529, error: 'overloaded' },
          { dispatch: 2, attempt: 1, kind: 'in doubt', answers: false },
          { dispatch: 3, attempt: 2, kind: 'charged', answers: true },
        ],
      },
    });
  });

  test('is nothing where no answer has come', () => {
    const made = conversation([root(1, [OPENING], { kind: 'in doubt', answers: false, response: null })]);
    expect(paymentsOf(made)).toEqual(['1 null null']);
    expect(made.turns[0]).toMatchObject({ wrote: null, told: null });
  });
});

describe('a conversation within a turn', () => {
  const inner = firstMessage('Quando?', 'um texto');
  const calls = [
    root(1, [OPENING]),
    sub(2, 'turn 1', 'beside it'),
    root(3, [inner], {}, 'turn 1/recurse 2'),
    sub(4, 'turn 1/recurse 2/turn 1', 'a piece of it'),
    root(5, [inner, 'told within'], {}, 'turn 1/recurse 2'),
    root(6, [OPENING, 'told']),
  ];
  const steps: ShownStep[] = [
    checkpoint('turn 1/recurse 2', 'turn 1', 'inner state'),
    { scope: 'turn 1', kind: 'step', name: 'recurse 2 ended', attempt: 1, state: null },
  ];

  test('stands below that turn, with turns of its own', () => {
    const { turns } = conversation(calls, steps);
    expect(turns.map(({ recursions }) => recursions.length)).toEqual([1, 0]);
    expect(turns[0]?.sub_calls.map(({ seq }) => seq)).toEqual([2]);
    expect(turns[0]?.recursions[0]).toMatchObject({
      name: 'recurse 2',
      question: 'Quando?',
      has_ended: true,
      turns: [
        {
          turn: 1,
          call: { seq: 3 },
          sub_calls: [{ seq: 4, prompt: 'a piece of it' }],
          told: 'told within',
          state: 'inner state',
        },
        { turn: 2, call: { seq: 5 }, sub_calls: [], told: null, state: null },
      ],
    });
  });

  test('has not ended until its end is recorded', () => {
    expect(conversation(calls).turns[0]?.recursions[0]?.has_ended).toBe(false);
  });

  test('leaves no call without a place', () => {
    const made = conversation(calls, steps);
    expect(callsOf(made).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(made.others).toEqual([]);
  });
});

test('calls that are to be paid again take no part, and are named', () => {
  const aside = { setAside: true };
  const calls = [root(1, [OPENING]), root(2, [OPENING, 'old'], aside), root(3, [OPENING, 'new'])];
  const made = conversation(calls);
  expect(made.turns.map(({ call, told }) => [call?.seq, told])).toEqual([
    [1, 'new'],
    [3, null],
  ]);
  expect(made.set_aside).toEqual([2]);
});

test('a call that is none of the agent’s is named, not lost', () => {
  const calls = [root(1, [OPENING]), dispatch(2, '', { input: 'something else' }), sub(3, 'elsewhere', 'prompt')];
  expect(conversation(calls).others).toEqual([2, 3]);
});

test('turn ten is not taken for turn one', () => {
  const told = Array.from({ length: 10 }, (_, index) => `told ${index}`);
  const calls = [
    ...told.map((_, index) => root(index + 1, [OPENING, ...told].slice(0, index + 1))),
    sub(11, 'turn 10', 'read'),
  ];
  const { turns } = conversation(calls);
  expect(turns.flatMap(({ turn, sub_calls }) => sub_calls.map(({ seq }) => [turn, seq]))).toEqual([[10, 11]]);
});

test('a tenth conversation within a turn is not taken for a first', () => {
  const inner = [firstMessage('Quando?', 'um texto')];
  const { turns } = conversation([root(1, [OPENING]), root(2, inner, {}, 'turn 1/recurse 10')]);
  expect(turns[0]?.recursions.map(({ name, turns }) => [name, turns.length])).toEqual([['recurse 10', 1]]);
});

test('a reply that was cut off says so, and one that is no message is shown as it is', () => {
  const calls = [
    root(1, [OPENING], { response: reply('half', 'max_tokens') }),
    root(2, [OPENING, 'cut'], { response: '<html>' }),
  ];
  expect(conversation(calls).turns).toMatchObject([
    { wrote: 'half', is_cut: true },
    { wrote: '<html>', is_cut: false },
  ]);
});

test.each([
  ['a plain one', 'Quem?'],
  ['one that holds the mark of its own end', 'What does </question>\n\n`context` is mean?\n'],
])('the first message is taken apart into question and context: %s', (_, question) => {
  const documents = [{ name: 'a.txt', text: 'x' }];
  expect(readFirstMessage(firstMessage(question, documents))).toEqual({
    question,
    context: firstMessage('', documents).slice('<question></question>\n\n'.length),
  });
});

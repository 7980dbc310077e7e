import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { answerText } from '../../src/simulator/answer-text.ts';
import { IndexCache } from '../../src/simulator/index-cache.ts';
import type { MessageRequest } from '../../src/simulator/message-request.ts';
import { isRootRequest, rootText } from '../../src/simulator/root-role.ts';
import { READINGS } from '../../src/simulator/root-turns/reading.ts';
import { SYNTAX_ERRORS } from '../../src/simulator/root-turns/syntax-error.ts';
import { type GuestDocument, GuestLikeRepl, type GuestTurn, parseProgram } from '../support/guest-like-repl.ts';
import { ask, forkSimulator, temporaryFolder } from './forked-simulator.ts';

const SYSTEM = 'You answer with programs for a JavaScript REPL.';
const LIBRARY: GuestDocument[] = [
  {
    name: 'licença.txt',
    text: 'A licença de instalação foi emitida em 2019.\n\nA licença de instalação vence em 30 de junho de 2027. Depois disso, a obra para.',
  },
  { name: 'rio.txt', text: 'O rio corre ao norte da usina.\nPeixes sobem o rio em novembro.' },
  { name: 'vazio.txt', text: ' \n' },
];
const QUESTIONS = Array.from({ length: 60 }, (_, n) => `Quando vence a licença de instalação número ${n}?`);

function rootRequest(question: string, replies: readonly string[] = []): MessageRequest {
  const task = { role: 'user' as const, content: `<question>${question}</question>\n\`context\` holds documents.` };
  const turns = replies.flatMap((content) => [
    { role: 'assistant' as const, content },
    { role: 'user' as const, content: 'It printed nothing.' },
  ]);
  return { model: 'claude-opus-4-5', max_tokens: 1000, system: SYSTEM, messages: [task, ...turns] };
}

/** The program in a reply, which must be one sentence and one fenced block. */
function codeOf(reply: string): string {
  const [, code] = /^[^\n`]+\n\n```js\n((?:(?!```).)+)\n```$/s.exec(reply) ?? [];
  expect(code, reply).toBeDefined();
  return code ?? '';
}

type Run = { readonly repl: GuestLikeRepl; readonly turns: readonly GuestTurn[]; readonly prompts: readonly string[] };

const indexes = new IndexCache();

async function asSubModel(prompt: string): Promise<string> {
  const request: MessageRequest = { model: 'm', max_tokens: 1000, messages: [{ role: 'user', content: prompt }] };
  return answerText(request, 'digest', indexes);
}

/** Runs the programs for `question` until one answers. */
async function run(question: string, context: string | readonly GuestDocument[] = LIBRARY): Promise<Run> {
  const repl = new GuestLikeRepl(context, asSubModel);
  const replies: string[] = [];
  const turns: GuestTurn[] = [];
  while (!repl.answer && turns.length < 10) {
    const reply = rootText(rootRequest(question, replies));
    replies.push(reply);
    turns.push(await repl.run(codeOf(reply)));
  }
  return { repl, turns, prompts: turns.flatMap(({ prompts }) => prompts) };
}

test('only a request whose system prompt speaks of a JavaScript REPL is one for the root model', () => {
  const request = rootRequest('Why?');
  expect(isRootRequest(request)).toBe(true);
  expect(isRootRequest({ ...request, system: [{ type: 'text', text: SYSTEM }] })).toBe(true);
  expect(isRootRequest({ ...request, system: 'You answer from a text.' })).toBe(false);
});

test('the simulated provider answers a request to the root model with a program', async () => {
  const folder = await temporaryFolder();
  const simulator = await forkSimulator(join(folder.path, 'bill.jsonl'));
  const { content } = await simulator.client.messages.create({ ...ask('<question>Why?</question>'), system: SYSTEM });
  await simulator.stop();
  await folder.remove();
  expect(content).toMatchObject([{ type: 'text', text: rootText(rootRequest('Why?')) }]);
});

test('the reply depends on the question and the turn, not on what was printed', () => {
  const request = rootRequest('Why?', ['first']);
  const printed = { role: 'user' as const, content: 'It printed something else. <question>How?</question>' };
  expect(rootText({ ...request, messages: [...request.messages.slice(0, -1), printed] })).toBe(rootText(request));
  expect(rootText(rootRequest('How?', ['first']))).not.toBe(rootText(request));
});

describe('over many questions', () => {
  let runs: Run[];
  beforeAll(async () => {
    runs = await Promise.all(QUESTIONS.map((question) => run(question)));
  });

  test('each takes seven turns and eighteen sub-calls, no two of them with the same prompt', () => {
    for (const { turns, prompts } of runs) {
      expect(turns).toHaveLength(7);
      expect(prompts).toHaveLength(18);
      expect(new Set(prompts).size).toBe(18);
    }
  });

  test('the first and the last turn make no sub-calls, and the others share them out differently', () => {
    const shares = runs.map(({ turns }) => turns.map(({ prompts }) => prompts.length));
    expect(shares.every((share) => share.at(0) === 0 && share.at(-1) === 0)).toBe(true);
    expect(new Set(shares.map(String)).size).toBeGreaterThan(30);
  });

  test('about one in five has a program that does not parse and is then repaired, and no other error', () => {
    const errors = runs.map(({ turns }) => turns.flatMap(({ error }) => error ?? []));
    const broken = errors.filter(({ length }) => length > 0);
    expect(broken.length).toBeGreaterThan(4);
    expect(broken.length).toBeLessThan(25);
    expect(broken.every(([error, ...more]) => error?.startsWith('SyntaxError') && more.length === 0)).toBe(true);
  });

  test('every answer holds the sentence that answers, cited where it stands', () => {
    for (const { repl } of runs) {
      expect(repl.answer?.text).toContain('A licença de instalação vence em 30 de junho de 2027.');
      expect(repl.answer?.citations).toContainEqual({
        document: 'licença.txt',
        quote: 'A licença de instalação vence em 30 de junho de 2027.',
      });
      expect(repl.wrongCitations).toEqual([]);
    }
  });

  test('the programs call in many ways', () => {
    const programs = QUESTIONS.flatMap((question) =>
      [2, 3, 4, 5, 6].map((turn) => rootText(rootRequest(question, Array(turn - 1).fill('…')))),
    ).join('\n');
    for (const way of ['await llm(', 'llmBatch(', 'Promise.all(', 'Promise.race(', 'allSettled', 'class ', 'new Map']) {
      expect(programs).toContain(way);
    }
  });
});

test.each([
  ['a string', LIBRARY.map(({ text }) => text).join('\n')],
  ['one long line', `${'palavra '.repeat(30_000)}. A licença vence em 2027.`],
  ['documents with nothing to find', [{ name: 'a', text: '\n\nNothing of use.\n' }]],
  ['many documents', Array.from({ length: 39 }, (_, n) => ({ name: `${n}`, text: `Licença ${n}.\n`.repeat(300) }))],
])('%s as context is read and cited too', async (_, context) => {
  const { repl, turns, prompts } = await run('Quando vence a licença?', context);
  expect(turns).toHaveLength(7);
  expect(new Set(prompts).size).toBe(18);
  expect(Math.max(...prompts.map((prompt) => prompt.length))).toBeLessThan(6000);
  expect(repl.answer?.citations.length).toBeGreaterThan(0);
  expect(repl.wrongCitations).toEqual([]);
});

test.each(['???', 'O que é?', `Why \`\`\`js "quoted" \${x} \\ \u2028' not?`, 'a'.repeat(3000)])(
  'the question %j is put and answered',
  async (question) => {
    const { repl, prompts } = await run(question);
    expect(new Set(prompts).size).toBe(18);
    expect(repl.answer?.citations.length).toBeGreaterThan(0);
  },
);

test('an answer that was refused is followed by one plain passage', async () => {
  const { repl } = await run('Quando vence a licença?');
  const first = repl.answer;
  await repl.run(codeOf(rootText(rootRequest('Quando vence a licença?', Array(7).fill('…')))));
  expect(repl.answer).not.toEqual(first);
  expect(repl.answer?.citations).toHaveLength(1);
  expect(repl.wrongCitations).toEqual([]);
});

test('whatever program is spoilt, it no longer parses', () => {
  const round = { number: 2, first: 3, count: 4, style: 0 };
  for (const { program } of READINGS) {
    for (const again of [false, true]) {
      const code = program({ ...round, again });
      expect(() => parseProgram(code), code).not.toThrow();
      for (const spoil of SYNTAX_ERRORS) expect(() => parseProgram(spoil(code)), spoil(code)).toThrow(SyntaxError);
    }
  }
});

test('a plain answer needs nothing that earlier programs have left behind', async () => {
  const repl = new GuestLikeRepl(LIBRARY, asSubModel);
  await repl.run(codeOf(rootText(rootRequest('Onde corre o rio?', Array(8).fill('…')))));
  expect(repl.answer?.citations).toEqual([{ document: 'rio.txt', quote: 'O rio corre ao norte da usina.' }]);
});

test('calls that fail do not keep a question from an answer', async () => {
  const repl = new GuestLikeRepl(LIBRARY, () => Promise.reject(new Error('overloaded')));
  for (let turn = 1; turn <= 7; turn += 1) {
    await repl.run(codeOf(rootText(rootRequest('Quando vence a licença?', Array(turn - 1).fill('…')))));
  }
  expect(repl.answer?.text).toContain('vence em 30 de junho');
});

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { licenceQuestions } from '../../examples/licences/generate.ts';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { type CommandResult, runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { type Exchange, startScriptedProvider } from '../support/scripted-provider.ts';

const REPORTS = join(packageRoot(), 'examples', 'licences', 'reports');

let db: TestDatabase;
const folder = mkdtempSync(join(tmpdir(), 'madrugada-conversation-'));

beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(async () => {
  await db.drop();
  rmSync(folder, { recursive: true });
});

function madrugada(args: string[], environment: Record<string, string> = {}, input = ''): Promise<CommandResult> {
  const home = { DATABASE_URL: db.url, MADRUGADA_HOME: join(folder, 'home') };
  return runCommand(args, { folder, input, environment: { ...home, ...environment } });
}

/** Loads a batch `id:v1` for the agent `recursive`. */
async function load(id: string, lines: object[], options: string[]): Promise<void> {
  const flags = ['--agent', 'recursive', ...options.flatMap((option) => ['--option', option])];
  const input = lines.map((line) => JSON.stringify(line)).join('\n');
  const { code, stderr } = await madrugada(['batch', 'load', id, '-', '--version', 'v1', ...flags], {}, input);
  expect({ code, stderr }).toMatchObject({ code: 0 });
}

const known = new Map<string, Promise<string>>();

/** What `task show` prints; asked once, for the tasks are at rest. */
function shown(key: string, ...flags: string[]): Promise<string> {
  const words = ['task', 'show', key, ...flags];
  const printed = known.get(words.join(' ')) ?? print(words);
  known.set(words.join(' '), printed);
  return printed;
}

async function print(words: string[]): Promise<string> {
  const { code, stdout, stderr } = await madrugada(words);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}

/** Expects all parts in the text, one after the other. */
function expectInOrder(text: string, parts: string[]): void {
  let from = 0;
  for (const part of parts) {
    const at = text.indexOf(part, from);
    expect(at, `${JSON.stringify(part)} in: ${text.slice(from)}`).toBeGreaterThanOrEqual(0);
    from = at + part.length;
  }
}

interface Shown {
  calls: { seq: number; scope: string; attempt: number; answers: boolean }[];
  conversation: {
    turns: { call: ShownCall; wrote: string; told: string | null; sub_calls: (ShownCall & { prompt: string })[] }[];
  };
}
interface ShownCall {
  seq: number;
  paid: string;
  paid_in_attempt: number;
  dispatches: { kind: string }[];
}

async function document(key: string, ...flags: string[]): Promise<Shown> {
  return JSON.parse(await shown(key, '--json', ...flags));
}

describe('two questions of a night in which a worker dies twice', () => {
  /** Calls of the root model in the two questions: nothing else is in flight then. */
  const CALL = 8;
  const CALL_IN_DOUBT = 2;

  beforeAll(async () => {
    await load('night', licenceQuestions(2), [`documents=${REPORTS}`]);
    const died = (item: number) => join(folder, `died-${item}`);
    const failpoints = [
      `journal.outcome.after[night:1:v1]:kill(${died(1)})@${CALL}`,
      `journal.outcome.before[night:2:v1]:kill(${died(2)})@${CALL_IN_DOUBT}`,
    ];
    const night = ['run', 'night', '--simulate', '--workers', '1'];
    const { code, stderr } = await madrugada(night, {
      MADRUGADA_FAILPOINT: failpoints.join(','),
      MADRUGADA_LOOK_UP: '', // else the answer that was lost would be recovered
    });
    expect({ code, stderr }).toMatchObject({ code: 0 });
  }, 60_000);

  test('the conversation is shown from the question to the answer', async () => {
    expectInOrder(await shown('night:1:v1'), [
      'attempt  slot',
      'conversation: 7 turns, 25 calls (17 live, 8 replayed)',
      '│ Por quantos anos é válida a licença de operação do empreendimento Porto Seco Aroeira?',
      '│ - relatorio-01.txt (3571)',
      '── turn 1: call 1, claude-opus-4-6, replayed, paid in attempt 1 ─',
      '│ First a look at the context',
      '\nthe REPL answered (state ',
      '│ relatorio-01.txt 3571',
      '(Turn 1 of 20 is over',
      '── turn 7: call 25, claude-opus-4-6, live ─',
      '│ answer({',
      '\nthe code came to its end (state ',
      'the answer\n│ A licença de operação',
      'cited from relatorio-01.txt\n│ ',
    ]);
  });

  test('calls that were recorded when the worker died are shown as replayed, the others as live', async () => {
    const { calls, conversation } = await document('night:1:v1');
    expect(calls[CALL - 1]?.scope, 'a call of the root model').toBe('');
    const inOrder = conversation.turns.flatMap(({ call, sub_calls }) => [call, ...sub_calls]);
    expect(inOrder.map(({ seq }) => seq)).toEqual(calls.map(({ seq }) => seq));
    expect(inOrder.map(({ paid, paid_in_attempt }) => `${paid} ${paid_in_attempt}`)).toEqual([
      ...Array(CALL).fill('replayed 1'),
      ...Array(25 - CALL).fill('live 2'),
    ]);
  });

  test('a dispatch in doubt is shown beside the one that brought the answer', async () => {
    expectInOrder(await shown('night:2:v1'), [
      `── turn 2: call ${CALL_IN_DOUBT}, claude-opus-4-6, live ─`,
      '\ndispatch 1 in attempt 1: in doubt\ndispatch 2 in attempt 2: charged, answers, status 200\n│ ',
      '── turn 3: ',
    ]);
  });

  test('prompts are shortened, and whole with --bodies', async () => {
    const { conversation } = await document('night:1:v1');
    const { conversation: whole } = await document('night:1:v1', '--bodies');
    const [short, long] = [conversation, whole].map(({ turns }) => turns[1]?.sub_calls[0]);
    expect(short).toMatchObject({ prompt: expect.stringMatching(/^.{200}…$/), prompt_chars: long?.prompt.length });
    expect(long?.prompt).toMatch(/^Round 1, part 1\.\n<document [\s\S]*<\/question>$/);
    const [shortText, longText] = [await shown('night:1:v1'), await shown('night:1:v1', '--bodies')];
    expect(shortText).toContain(`(${long?.prompt.length} characters)`);
    expect(longText).toContain('  > Round 1, part 1.\n    <document name="relatorio-01.txt">\n');
  });

  test('the keys of the JSON documents are spelled like those of all commands', async () => {
    const documents = [
      await document('night:1:v1', '--bodies'),
      ...(await Promise.all(
        [
          ['batch', 'show', 'night'],
          ['status', 'night'],
        ].map(async (command) => JSON.parse((await madrugada([...command, '--json'])).stdout)),
      )),
    ];
    const keys = new Set(documents.flatMap(keysOf));
    expect([...keys].filter((key) => /[A-Z]/.test(key))).toEqual([]);
    for (const key of [
      'spent_usd',
      'attempts_counted',
      'started_at',
      'cost_usd',
      'stop_reason',
      'in_doubt',
      'set_aside',
    ])
      expect(keys).toContain(key);
  });
});

function keysOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const own = Array.isArray(value) ? [] : Object.keys(value);
  return [...own, ...Object.values(value).flatMap(keysOf)];
}

describe('a root model that recurses', () => {
  const ESCAPE = '\u001b]0;owned\u0007';

  /** The root model recurses in its first turn, the one within answers, and nobody behaves. */
  function answer(exchange: Exchange): void {
    const { messages, model } = JSON.parse(exchange.body.toString());
    const isRoot = model === 'claude-opus-4-6';
    const code = !isRoot
      ? 'print(await llm("how long?")); answer({ text: "3 anos", citations: [{ document: "context", quote: "três anos" }] });'
      : messages.length === 1
        ? 'const found = await recurse("Quanto tempo?", "Vale por três anos."); print(found.text);'
        : 'answer(found);';
    const isAsked = messages.at(-1).content === 'how long?';
    exchange.message(isAsked ? `três\r${ESCAPE}` : `Thinking ${ESCAPE}\u202e\n\n\`\`\`js\n${code}\n\`\`\``);
  }

  beforeAll(async () => {
    const provider = await startScriptedProvider();
    provider.script = answer;
    try {
      await load('deep', [{ item: '1', question: 'Até quando?', context: 'Vale por três anos.' }], ['max_depth=2']);
      const night = ['run', 'deep', '--workers', '1'];
      const { code, stderr } = await madrugada(night, { ANTHROPIC_BASE_URL: provider.url });
      expect({ code, stderr }).toMatchObject({ code: 0 });
    } finally {
      await provider.close();
    }
  }, 60_000);

  test('has the conversation within shown indented, in its turn', async () => {
    expectInOrder(await shown('deep:1:v1'), [
      '\n── turn 1: call 1, claude-opus-4-6, live ─',
      '\nrecurse 1: 1 turn, 2 calls (2 live, 0 replayed)\n  question\n  │ Quanto tempo?\n',
      '\n  ── turn 1: call 2, claude-haiku-4-5, live ─',
      '\n  sub-call 3, claude-haiku-4-5, live\n    > how long? (9 characters)\n    < três',
      '\n  recurse 1 has ended\nthe REPL answered',
      '\n│ 3 anos\n',
      '\n── turn 2: call 4, claude-opus-4-6, live ─',
      '\nthe answer\n│ 3 anos\ncited from context\n│ três anos',
    ]);
  });

  test.each([[[]], [['--bodies']]])('sends no control character of the models to the terminal, %j', async (flags) => {
    const text = await shown('deep:1:v1', ...flags);
    expect(text).toContain('│ Thinking \\x1b]0;owned\\x07\\u202e');
    expect(text.match(/(?!\n)\p{Cc}|\u202e/gu)).toBeNull();
  });
});

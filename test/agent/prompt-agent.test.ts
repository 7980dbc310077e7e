import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkSchema } from '../../src/agent/define-agent.ts';
import { promptAgent } from '../../src/agent/prompt-agent.ts';
import type { Task } from '../../src/agent/task.ts';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { journalBench } from '../support/journal-bench.ts';

const bench = journalBench();
let documents: string;

beforeAll(async () => {
  documents = await mkdtemp(join(tmpdir(), 'madrugada-documents-'));
  await writeFile(join(documents, 'contract.txt'), 'Clause 7: the rent is 500.');
});
afterAll(() => rm(documents, { recursive: true }));

/** Runs the prompt agent as if its task had this input. */
async function answer(input: { question: string; document?: string }, agentOptions: Record<string, string> = {}) {
  const batch = await loadTestBatch(bench.db, { agentOptions });
  const worker = await bench.workers.add();
  const result = await worker.attempt(batch, (task) =>
    promptAgent.run({ ...task, anthropic: task.anthropic, input } as Task<typeof input>),
  );
  return { result, task: await taskOf(bench.db, batch) };
}

const request = () => JSON.parse(bench.provider.exchanges[0]?.body.toString() ?? '{}');

test('the question goes to the model as one message, and the answer’s text is the answer', async () => {
  const { result, task } = await answer({ question: 'How much is the rent?' });

  expect(result.ending).toBe('completed');
  expect(request().messages).toEqual([{ role: 'user', content: '<question>How much is the rent?</question>' }]);
  expect(task.result).toEqual({ text: 'answer to <question>How much is the rent?</question>' });
});

test('the document that the input names goes along', async () => {
  await answer({ question: 'How much?', document: 'contract.txt' }, { documents });

  expect(request().messages[0].content).toBe(
    '<document name="contract.txt">\nClause 7: the rent is 500.\n</document>\n\n<question>How much?</question>',
  );
});

test('the option model chooses the model; without it there is a default one', async () => {
  await answer({ question: 'q' }, { model: 'claude-opus-4-6' });
  const chosen = request().model;
  bench.provider.forget();
  await answer({ question: 'q' });

  expect([chosen, request().model]).toEqual(['claude-opus-4-6', 'claude-haiku-4-5']);
});

test('an input that names a document fails without the option that says where documents are', async () => {
  const { result } = await answer({ question: 'q', document: 'contract.txt' });

  expect(result.message).toContain('load the batch with --option documents=DIR');
  expect(bench.provider.requestCount).toBe(0);
});

for (const document of ['../secret', '/etc/passwd', 'a/b'])
  test(`a document called ${document} is not read: it must be a file name`, async () => {
    const { result } = await answer({ question: 'q', document }, { documents });

    expect(result.message).toBe(`document ${document} must be a file name, not a path`);
    expect(bench.provider.requestCount).toBe(0);
  });

test('a document that is not there fails the attempt, naming it', async () => {
  const { result } = await answer({ question: 'q', document: 'missing.txt' }, { documents });
  expect(result.message).toContain('missing.txt');
});

test('all text blocks of an answer count, and nothing else', async () => {
  bench.provider.script = (exchange) =>
    exchange.respond(
      200,
      JSON.stringify({
        ...{ id: 'm', type: 'message', role: 'assistant', model: 'claude-haiku-4-5', stop_reason: 'end_turn' },
        content: [
          { type: 'text', text: 'one ' },
          { type: 'tool_use', id: 't', name: 'n', input: {} },
          { type: 'text', text: 'two' },
        ],
        usage: { input_tokens: 1, output_tokens: 1 },
      }),
      { 'content-type': 'application/json' },
    );
  expect((await answer({ question: 'q' })).task.result).toEqual({ text: 'one two' });
});

test('an empty answer does not fit', async () => {
  expect(await checkSchema(promptAgent.output, { text: '' })).toHaveProperty('problems', [
    expect.stringMatching(/^text: /),
  ]);
});

test('a line without a question, or with an empty one, does not fit; other columns may come along', async () => {
  const problems = async (input: object) => (await checkSchema(promptAgent.input, input)).problems;
  expect(await problems({})).toEqual([expect.stringMatching(/^question: /)]);
  expect(await problems({ question: '' })).toEqual([expect.stringMatching(/^question: /)]);
  expect(await problems({ question: 'q', region: 'north' })).toBeUndefined();
});

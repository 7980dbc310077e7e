import { join } from 'node:path';
import type Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ask, type ForkedSimulator, forkSimulator, temporaryFolder, wish } from './forked-simulator.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let simulator: ForkedSimulator;

beforeAll(async () => {
  folder = await temporaryFolder();
  simulator = await forkSimulator(join(folder.path, 'bill.jsonl'));
});

afterAll(async () => {
  await simulator.stop();
  await folder.remove();
});

const REPORT = `O relatório foi escrito em 2019, conforme o art. 5 da lei. A licença de instalação vence em 30 de junho de 2027.
O rio corre ao norte da usina.`;

function textOf(message: Anthropic.Message): string {
  return message.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
}

test('a plain request is answered with the sentence of the document that fits the question', async () => {
  const prompt = `<document name="a.txt">${REPORT}</document>\n<question>Quando vencem as LICENCAS de instalacao?</question>`;
  const message = await simulator.client.messages.create(ask(prompt));
  expect(textOf(message)).toBe('A licença de instalação vence em 30 de junho de 2027.');
  expect(message.stop_reason).toBe('end_turn');
});

test('without tags the last line is the question and the rest is the text', async () => {
  const message = await simulator.client.messages.create(ask(`${REPORT}\n\nPara onde corre o rio?`));
  expect(textOf(message)).toBe('O rio corre ao norte da usina.');
});

test('documents given in the system prompt are searched too', async () => {
  const system = [{ type: 'text' as const, text: `<document name="a.txt">${REPORT}</document>` }];
  const message = await simulator.client.messages.create({ ...ask('Onde corre o rio?'), system });
  expect(textOf(message)).toBe('O rio corre ao norte da usina.');
});

test('of several documents the one that fits answers', async () => {
  const prompt = `<document name="a">Cats sleep.</document><document name="b">Dogs bark at night.</document>
<question>Who barks at night?</question>`;
  expect(textOf(await simulator.client.messages.create(ask(prompt)))).toBe('Dogs bark at night.');
});

test('an unclosed document tag still gets an answer', async () => {
  const message = await simulator.client.messages.create(ask(`<document name="a">${REPORT}\nOnde corre o rio?`));
  expect(textOf(message)).toBe('O rio corre ao norte da usina.');
});

test('a prompt with a very long run of spaces is answered like any other', async () => {
  const message = await simulator.client.messages.create(ask(`a${' '.repeat(200_000)}b\nWhat is b?`));
  expect(textOf(message)).toMatch(/^a\s+$/); // cut off at its max_tokens
}, 10_000);

test('the same request gets the same answer and another request another one', async () => {
  const [first, again, other] = await Promise.all(
    ['hello', 'hello', 'goodbye'].map((prompt) => simulator.client.messages.create(ask(prompt))),
  );
  expect(first?.content).toEqual(again?.content);
  expect(first?.content).not.toEqual(other?.content);
  expect(first?.id).not.toBe(again?.id);
});

test('a streamed answer is assembled by the client into the same message as a plain one', async () => {
  const prompt = `<document name="a">${REPORT} ${'😀 palavra '.repeat(90)}.</document><question>palavra</question>`;
  const plain = await simulator.client.messages.create(ask(prompt));
  const streamed = await simulator.client.messages.stream(ask(prompt)).finalMessage();
  expect(textOf(streamed)).toBe(textOf(plain));
  expect(streamed.usage).toEqual(plain.usage);
});

test('a stream starts with a placeholder count and ends with the true one', async () => {
  const events: Anthropic.RawMessageStreamEvent[] = [];
  const stream = await simulator.client.messages.create({ ...ask('hello'), stream: true });
  for await (const event of stream) events.push(event);
  const types = events.map((event) => event.type);
  expect(types.slice(0, 3)).toEqual(['message_start', 'content_block_start', 'content_block_delta']);
  expect(types.slice(-3)).toEqual(['content_block_stop', 'message_delta', 'message_stop']);
  expect(events[0]).toMatchObject({ message: { usage: { output_tokens: 1 } } });
  expect(events.at(-2)).toMatchObject({ usage: { output_tokens: 1000 } });
});

test('an answer of ten million bytes arrives whole', async () => {
  const message = await simulator.client.messages.create(ask('big'), wish('answer-bytes=10000000'));
  expect(Buffer.byteLength(textOf(message))).toBe(10_000_000);
});

test('the listed models and token counts are given without a charge', async () => {
  const before = (await simulator.billLines()).length;
  const { data } = await simulator.client.models.list();
  expect(data.map((model) => model.id)).toEqual([
    'claude-opus-4-6',
    'claude-opus-4-5',
    'claude-sonnet-4-5',
    'claude-haiku-4-5',
  ]);
  const { model, messages } = ask('count me');
  expect(await simulator.client.messages.countTokens({ model, messages })).toEqual({ input_tokens: 7200 });
  expect(await simulator.billLines()).toHaveLength(before);
});

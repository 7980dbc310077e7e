import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ANSWER, inBlock, recursiveBench } from '../../support/recursive-bench.ts';
import { testFolder } from '../../support/test-folder.ts';

const bench = recursiveBench();
const CALLS = ['await llm("read this");', ANSWER];

/** Runs a task of one sub-call with these options and returns the second request of the root and the one of the sub-call. */
async function requestsWith(options: Record<string, string>) {
  const { result } = await bench.run(CALLS, { options });
  expect(result.ending).toBe('completed');
  return { root: bench.rootRequests[1], sub: bench.subRequests[0] };
}

test('without options a request holds nothing that nobody asked for', async () => {
  const { root, sub } = await requestsWith({});

  expect(Object.keys(root ?? {}).sort()).toEqual(['max_tokens', 'messages', 'model', 'system']);
  expect(sub).toEqual({
    model: 'claude-haiku-4-5',
    max_tokens: 2048,
    messages: [{ role: 'user', content: 'read this' }],
  });
});

test('models and output limits of root and sub-calls are options of their own', async () => {
  const { root, sub } = await requestsWith({
    ...{ root_model: 'claude-sonnet-4-6', max_tokens: '64000' },
    ...{ sub_model: 'claude-opus-4-6', max_subcall_tokens: '63999' },
  });
  expect(root).toMatchObject({ model: 'claude-sonnet-4-6', max_tokens: 64_000 });
  expect(sub).toMatchObject({ model: 'claude-opus-4-6', max_tokens: 63_999 });
});

test('effort goes to the root model alone', async () => {
  const { root, sub } = await requestsWith({ effort: 'low' });

  expect(root).toMatchObject({ output_config: { effort: 'low' } });
  expect(sub).not.toHaveProperty('output_config');
});

test('temperature goes to both models, zero as well', async () => {
  const { root, sub } = await requestsWith({ temperature: '0' });
  expect([root, sub]).toEqual([
    expect.objectContaining({ temperature: 0 }),
    expect.objectContaining({ temperature: 0 }),
  ]);
});

for (const ttl of ['5m', '1h'] as const)
  test(`cache=${ttl} marks the end of the system prompt and of the conversation, and nothing else`, async () => {
    const { root, sub } = await requestsWith({ cache: ttl });
    const mark = { cache_control: { type: 'ephemeral', ttl } };

    expect(root?.system).toEqual([expect.objectContaining(mark)]);
    expect(root?.messages.at(-1)).toEqual({ role: 'user', content: [expect.objectContaining(mark)] });
    expect(JSON.stringify(root).match(/cache_control/g)).toHaveLength(2);
    expect(JSON.stringify(sub)).not.toContain('cache_control');
  });

test('cache is 5m where nothing is said', async () => {
  const { root } = await requestsWith({});
  expect(JSON.stringify(root).match(/"ttl":"5m"/g)).toHaveLength(2);
});

test('cache=off marks nothing', async () => {
  const { root } = await requestsWith({ cache: 'off' });
  expect(JSON.stringify(root)).not.toContain('cache_control');
});

test('what comes before the end of the conversation stays the same from turn to turn, or a cache would be of no use', async () => {
  await bench.run(['print(1)', 'print(2)', ANSWER], { options: { cache: '5m' } });
  const plain = bench.rootRequests.map(({ system, messages }) =>
    JSON.stringify([system, messages.map(({ role, content }) => [role, flat(content)])]).slice(0, -2),
  );
  expect(plain[1]?.startsWith(plain[0] ?? '-')).toBe(true);
  expect(plain[2]?.startsWith(plain[1] ?? '-')).toBe(true);
});

function flat(content: string | readonly object[]): string {
  return typeof content === 'string' ? content : content.map((block) => ('text' in block ? block.text : '')).join('');
}

test('the system prompt is the same for every task of a batch', async () => {
  await bench.run([ANSWER]);
  await bench.run([ANSWER], { input: { question: 'Another one?' } });
  const [first, second] = bench.rootRequests;

  expect(first?.system).toEqual(second?.system);
});

const PROMPTS = {
  'white space': ' leading\n\n\ttabs and trailing \r\n',
  quotes: `"double" 'single' \`back\` \\ $\{x}`,
  'letters of other scripts': 'água, Straße, 日本語, \u05E9\u05DC\u05D5\u05DD',
  'characters beyond 16 bits': 'a 🌙 b 👩‍👩‍👧',
  'letters with separate accents': 'e\u0301 is not \u00E9',
  'control characters': 'a\u0000b\u0001\u007F\uFEFFc',
  'separators of lines and paragraphs': 'a\u2028b\u2029c',
};

for (const [what, prompt] of Object.entries(PROMPTS))
  test(`a prompt with ${what} reaches the sub-model as the code wrote it, and its answer the code`, async () => {
    bench.play(
      { 'What?': [`const p = ${JSON.stringify(prompt)};\nprint(await llm(p) === "echo: " + p);`, ANSWER] },
      (exchange) => exchange.message(`echo: ${exchange.prompt}`),
    );
    await bench.attempt(await bench.load({ input: { question: 'What?' } }));

    expect(bench.prompts).toEqual([prompt]);
    expect(bench.told[0]).toMatch(/^<output>\ntrue\n/);
  });

test('a prompt taken from the context is the context, character by character', async () => {
  const context = `${Object.values(PROMPTS).join('|').replaceAll('\0', '')} made of rock`; // a batch takes no NUL character
  await bench.run(['await llm(context);', ANSWER], { input: { context } });
  expect(bench.prompts).toEqual([context]);
});

test('a document with a NUL character in it is the code’s as a whole', async () => {
  const documents = testFolder();
  writeFileSync(join(documents, 'a.txt'), 'before\0after');
  await bench.run(['print(context[0].text.length);\nawait llm(context[0].text);', ANSWER], { options: { documents } });

  expect(bench.told[0]).toMatch(/^<output>\n12\n/);
  expect(bench.prompts).toEqual(['before\0after']);
});

test('half of a character, as a slice may leave it, goes out as the sign for what cannot be read', async () => {
  await bench.run(['await llm("ab🌙".slice(0, 3));', ANSWER]);
  expect(bench.prompts).toEqual(['ab\uFFFD']);
});

test('a prompt of half a million characters goes out whole', async () => {
  const { result } = await bench.run(['await llm("ã".repeat(500_000));', ANSWER]);

  expect(result.ending).toBe('completed');
  expect(bench.prompts).toEqual(['ã'.repeat(500_000)]);
});

test('a sub-call’s answer that was cut off says so to the code', async () => {
  const message = inBlock('1');
  bench.play({ 'What?': ['print(await llm("long"));', ANSWER] }, (exchange) =>
    exchange.respond(
      200,
      JSON.stringify({
        ...{ id: 'm', type: 'message', role: 'assistant', model: 'claude-haiku-4-5', stop_reason: 'max_tokens' },
        ...{ content: [{ type: 'text', text: message }], usage: { input_tokens: 1, output_tokens: 1 } },
      }),
      { 'content-type': 'application/json' },
    ),
  );
  await bench.attempt(await bench.load({ input: { question: 'What?' }, options: { max_subcall_tokens: '99' } }));
  expect(bench.told[0]).toContain(`${message}\n[cut off at 99 tokens]`);
});

test('a sub-call that the provider refuses for good is an error that the code may catch', async () => {
  const code = 'try { await llm("bad") } catch (error) { print("caught", error.message) }';
  bench.play({ 'What?': [code, ANSWER] }, (exchange) => exchange.refuse(400, 'invalid_request_error'));
  const result = await bench.attempt(await bench.load({ input: { question: 'What?' } }));

  expect(bench.told[0]).toMatch(/caught .*invalid_request_error/);
  expect(result.ending).toBe('completed');
});

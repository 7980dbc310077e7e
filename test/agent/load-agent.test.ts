import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { loadAgent, resolveAgent } from '../../src/agent/load-agent.ts';
import { promptAgent } from '../../src/agent/prompt-agent.ts';

const file = (name: string) => fileURLToPath(new URL(`../support/agents/${name}`, import.meta.url));

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'madrugada-agents-'));
  onTestFinished(() => rm(path, { recursive: true }));
  return path;
}

test('the built-in agent is known by its name', async () => {
  const { agent } = await loadAgent('prompt');
  expect(agent).toBe(promptAgent);
  expect(resolveAgent('prompt')).toBe('prompt');
});

test('a module’s path is kept absolute, wherever it was given', () => {
  const path = file('three-questions.ts');
  expect(resolveAgent(path)).toBe(path);
  expect(resolveAgent(relative(process.cwd(), path))).toBe(path);
});

test('the default export of a module is the agent', async () => {
  const { agent, sha256 } = await loadAgent(file('three-questions.ts'));
  expect(agent.run).toBeTypeOf('function');
  expect(sha256).toMatch(/^[0-9a-f]{64}$/);
});

test('two states of a module’s file have two digests', async () => {
  const path = await folder();
  const [before, after] = [join(path, 'a.mjs'), join(path, 'b.mjs')];
  const schema = `{ '~standard': {} }`;
  await writeFile(before, `export default { input: ${schema}, output: ${schema}, run: () => 1 };`);
  await writeFile(after, `export default { input: ${schema}, output: ${schema}, run: () => 2 };`);
  expect((await loadAgent(before)).sha256).not.toBe((await loadAgent(after)).sha256);
});

test('the same module elsewhere has the same digest', async () => {
  const path = await folder();
  const schema = `{ '~standard': {} }`;
  await writeFile(join(path, 'a.mjs'), `export default { input: ${schema}, output: ${schema}, run: () => 1 };`);
  await copyFile(join(path, 'a.mjs'), join(path, 'b.mjs'));
  expect((await loadAgent(join(path, 'a.mjs'))).sha256).toBe((await loadAgent(join(path, 'b.mjs'))).sha256);
});

test('an agent that is neither built in nor a file is refused, and what is built in is named', async () => {
  await expect(loadAgent('promtp')).rejects.toMatchObject({
    exitCode: 2,
    message: 'agent promtp: no such file, and not a built-in agent (prompt, recursive)',
  });
});

test('a module that throws is refused with its reason', async () => {
  await expect(loadAgent(file('broken/throws.ts'))).rejects.toThrow(/cannot be loaded: this module cannot be loaded/);
});

for (const name of ['no-default.ts', 'no-schema.ts'])
  test(`a module such as ${name} is refused, and what it should export is said`, async () => {
    await expect(loadAgent(file(`broken/${name}`))).rejects.toThrow(
      /its default export must be defineAgent\(\{ input, output, run \}\)/,
    );
  });

test('a name of Object’s own, such as toString, is no built-in agent', async () => {
  await expect(loadAgent('toString')).rejects.toThrow(/no such file/);
});

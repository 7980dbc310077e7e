import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ask, forkSimulator, runToExit, temporaryFolder } from './forked-simulator.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;

beforeEach(async () => {
  folder = await temporaryFolder();
});

afterEach(() => folder.remove());

/** Which of `prompts`, sent one after the other, were answered, by a fresh simulator with these flags. */
async function answered(prompts: readonly string[], flags: readonly string[]): Promise<boolean[]> {
  const simulator = await forkSimulator(join(folder.path, 'bill.jsonl'), flags);
  const results: boolean[] = [];
  for (const prompt of prompts) {
    const call = simulator.client.messages.create(ask(prompt));
    results.push(
      await call.then(
        () => true,
        () => false,
      ),
    );
  }
  await simulator.stop();
  return results;
}

const QUESTIONS = Array.from({ length: 40 }, (_, n) => `question ${n}`);

test('with the same seed the same requests are struck, with another seed others', async () => {
  const flags = ['--fault', 'refuse=529:0.3,charge-and-drop:0.3', '--seed'];
  const first = await answered(QUESTIONS, [...flags, 'a']);
  expect(first).toContain(true);
  expect(first).toContain(false);
  expect(await answered(QUESTIONS, [...flags, 'a'])).toEqual(first);
  expect(await answered(QUESTIONS, [...flags, 'b'])).not.toEqual(first);
});

test('a request that is sent again draws anew', async () => {
  const results = await answered(Array(40).fill('same'), ['--fault', 'refuse:0.5']);
  expect(results).toContain(true);
  expect(results).toContain(false);
});

test('a share of 1 strikes every request and its refusals carry the given retry-after', async () => {
  const flags = ['--fault', 'refuse=429:1', '--retry-after', '7'];
  const simulator = await forkSimulator(join(folder.path, 'bill.jsonl'), flags);
  const error = await simulator.client.messages.create(ask('hello')).catch((thrown: unknown) => thrown);
  await simulator.stop();
  expect(error).toMatchObject({ status: 429 });
  expect(error instanceof Error && 'headers' in error && (error.headers as Headers).get('retry-after')).toBe('7');
});

test.each([
  [['--fault', 'explode:0.1'], '"explode:0.1" is not NAME:SHARE'],
  [['--fault', 'refuse'], '"refuse" is not NAME:SHARE'],
  [['--fault', 'refuse:0.6,cut-stream:0.6'], 'add up to more than 1'],
  [['--latency-ms', '200-50'], '--latency-ms takes'],
  [['--latency-ms', 'soon'], '--latency-ms takes'],
  [['--port', '70000'], '--port takes'],
  [['--retry-after', '-1'], '--retry-after'],
  [['--requests-per-minute', '0'], '--requests-per-minute takes'],
  [['--colour', 'red'], '--colour'],
])('%j ends with exit code 2 and says why', async (flags, reason) => {
  const { code, stderr } = await runToExit([...flags, '--bill', join(folder.path, 'bill.jsonl')]);
  expect(stderr).toContain(reason);
  expect(code).toBe(2);
});

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { dispatchesOf, kindsOf, loadTestBatch, TestWorkers, taskOf } from '../support/attempts.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';

let db: TestDatabase;
let provider: ScriptedProvider;
let workers: TestWorkers;

beforeAll(async () => {
  db = await createTestDatabase();
  provider = await startScriptedProvider();
  workers = new TestWorkers(db, provider.url);
});
afterEach(() => provider.forget());
afterAll(async () => {
  await workers?.closeAll();
  await provider?.close();
  await db?.drop();
});

async function ask(task: Task, prompt: string): Promise<string> {
  const message = await task.anthropic.messages.create({
    model: 'claude-haiku-4-5',
    max_tokens: 100,
    messages: [{ role: 'user', content: prompt }],
  });
  const [block] = message.content;
  return block?.type === 'text' ? block.text : '';
}

test('a recorded call is answered from the journal and not sent again when its task is resumed', async () => {
  const batch = await loadTestBatch(db);
  const worker = await workers.add();
  const first = await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    throw new Error('the program breaks here');
  });
  const second = await worker.attempt(batch, async (task) => [await ask(task, 'one'), await ask(task, 'two')]);

  expect(first.ending).toBe('failed');
  expect(second).toMatchObject({ ending: 'completed', replayedCalls: 1 });
  expect((await taskOf(db, batch)).result).toEqual(['answer to one', 'answer to two']);
  expect(provider.exchanges.map((exchange) => exchange.prompt)).toEqual(['one', 'two']);
  expect(await kindsOf(db, batch)).toEqual(['1.1 charged', '2.1 charged']);
  expect((await dispatchesOf(db, batch)).map((row) => row.attempt)).toEqual([1, 2]);
});

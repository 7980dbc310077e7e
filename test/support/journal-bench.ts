import { afterAll, afterEach, beforeAll } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { TestWorkers } from './attempts.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { type ScriptedProvider, startScriptedProvider } from './scripted-provider.ts';

/** What the tests of one file share: a database, a provider, and the workers that run attempts against both. */
export interface JournalBench {
  db: TestDatabase;
  provider: ScriptedProvider;
  workers: TestWorkers;
}

/** Sets up a bench for the calling test file and takes it down after the last test. Its fields are there once tests run. */
export function journalBench(): JournalBench {
  const bench = {} as JournalBench;
  beforeAll(async () => {
    bench.db = await createTestDatabase();
    bench.provider = await startScriptedProvider();
    bench.workers = new TestWorkers(bench.db, bench.provider.url);
  });
  afterEach(async () => {
    bench.provider.forget();
    await bench.workers.closeAll(); // a server has only so many connections
    await bench.db.pool.query('DELETE FROM madrugada.provider_pace'); // else the next test waits out the pause of this one
  });
  afterAll(async () => {
    await bench.provider?.close();
    await bench.db?.drop();
  });
  return bench;
}

/** The parameters of a message request that asks one thing. */
export function question(prompt: string) {
  return { model: 'claude-haiku-4-5', max_tokens: 100, messages: [{ role: 'user' as const, content: prompt }] };
}

/** Asks by the official client; returns the answer's text. */
export async function ask(task: Task, prompt: string, options: { signal?: AbortSignal } = {}): Promise<string> {
  const message = await task.anthropic.messages.create(question(prompt), options);
  const [block] = message.content;
  return block?.type === 'text' ? block.text : '';
}

/** Asks by the journaled `fetch` itself. */
export function fetchMessage(task: Task, prompt: string, init: RequestInit = {}): Promise<Response> {
  return fetchBody(task, JSON.stringify(question(prompt)), init);
}

/** Posts any body to the provider's message endpoint. The host does not matter to the journal, only to where it goes. */
export function fetchBody(
  task: Task,
  body: NonNullable<RequestInit['body']>,
  init: RequestInit = {},
): Promise<Response> {
  return task.fetch(`${task.anthropic.baseURL}/v1/messages`, { method: 'POST', body, ...init });
}

/** Posts any body to have its tokens counted, which is free: one whose price nobody can say is not sent anywhere else. */
export function countBody(
  task: Task,
  body: NonNullable<RequestInit['body']>,
  init: RequestInit = {},
): Promise<Response> {
  return task.fetch(`${task.anthropic.baseURL}/v1/messages/count_tokens`, { method: 'POST', body, ...init });
}

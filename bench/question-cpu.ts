import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { licenceQuestions } from '../examples/licences/generate.ts';
import { loadBatch } from '../src/batch/load-batch.ts';
import { openClient } from '../src/postgres/connect.ts';
import type { Figure } from './figure.ts';
import type { WorkerFigures, WorkerOrder } from './sandbox-worker.ts';

const WARM_UP = 20;
const MEASURED = 100;
const CALLS = 25;
const TARGET_MS = 250;

/** A folder of documents that all questions are asked about; undefined: each names its own report among the examples. */
export interface Library {
  id: string;
  what: string;
  folder: string;
  /** Whether a question names the one document that it is about. */
  named: boolean;
}

/** CPU time that a worker process takes for one question of the agent `recursive`: 7 turns, 18 sub-calls. */
export async function measureQuestion(url: string, providerUrl: string, library: Library): Promise<Figure[]> {
  const batchKey = await loadQuestions(url, library);
  const { cpuMs, seconds, calls } = await runOrder({
    ...{ url, providerUrl, batchKey, slots: 1, warmUp: WARM_UP, measured: MEASURED },
  });
  if (calls !== (WARM_UP + MEASURED) * CALLS) throw new Error(`${calls} calls were made, ${CALLS} a question expected`);
  return [
    { what: `CPU of a question, ${library.what}`, unit: 'ms', value: cpuMs / MEASURED, target: TARGET_MS },
    { what: '  its time, one at a time', unit: 'ms', value: (seconds * 1000) / MEASURED },
  ];
}

/** Runs a worker process of the bench to the end of what it is told to do. */
export async function runOrder(order: WorkerOrder): Promise<WorkerFigures> {
  const script = fileURLToPath(new URL('./sandbox-worker.ts', import.meta.url));
  const child = fork(script, [JSON.stringify(order)], { execArgv: ['--expose-gc'] });
  const [said] = await Promise.race([once(child, 'message'), once(child, 'exit')]);
  if (typeof said !== 'object') throw new Error(`the worker process ended with ${said} before it had measured`);
  if (child.exitCode === null) await once(child, 'exit');
  return said as WorkerFigures;
}

async function loadQuestions(url: string, { id, folder, named }: Library): Promise<string> {
  const client = await openClient({ url, as: 'operator', applicationName: 'bench load' });
  async function* tasks() {
    for (const [index, { item, question, document }] of licenceQuestions(WARM_UP + MEASURED).entries()) {
      const inputJson = JSON.stringify(named ? { question, document } : { question });
      yield { position: index + 1, item, inputJson };
    }
  }
  const batch = { id, version: 'v1', agent: 'recursive', agentOptions: { documents: folder }, maxAttempts: 3 };
  try {
    return (await loadBatch(client, { ...batch, leaseSeconds: 600, doubtPolicy: 'pay_again' }, tasks())).batchKey;
  } finally {
    await client.end();
  }
}

import { z } from 'zod';
import { defineAgent } from '../src/agent/define-agent.ts';
import { setMonthLimit } from '../src/batch/budget.ts';
import { loadBatch, type NewBatch } from '../src/batch/load-batch.ts';
import { claimTask } from '../src/lease/claim.ts';
import { openClient } from '../src/postgres/connect.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { runAttempt } from '../src/worker/run-attempt.ts';
import { CALLS_PER_TASK, type Contender, type Place } from './contender.ts';
import { openJournal } from './open-journal.ts';
import { question } from './provider.ts';

/** What the batches of a contender may spend, in dollars; none: no limit. */
export interface Caps {
  batch: Pick<NewBatch, 'budgetUsd' | 'limits'>;
  month: string;
}

/** The product: tasks are claimed, run and completed through the code of a worker process, with its connections. */
export async function openMadrugada(
  { databaseUrl: url, providerUrl }: Place,
  { name = 'madrugada', caps }: { name?: string; caps?: Caps } = {},
): Promise<Contender> {
  await migrate(url);
  const operator = await openClient({ url, as: 'operator', applicationName: 'bench load' });
  if (caps?.month) await setMonthLimit(operator, thisMonth(), caps.month, { by: 'bench', reason: 'to be measured' });
  const { env, pool, workerId, close } = await openJournal(url);
  const agent = defineAgent({
    input: z.object({}),
    output: z.object({ text: z.string() }),
    async run(task) {
      let text = '';
      for (let n = 0; n < CALLS_PER_TASK; n += 1) {
        const response = await task.fetch(`${providerUrl}/v1/messages`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: question(task.key, n),
        });
        text = await response.text();
      }
      return { text };
    },
  });
  const loaded = { agent, sha256: 'bench' };
  let batches = 0;
  let batchKey = '';

  async function runSlot(slot: string): Promise<void> {
    for (;;) {
      const task = await claimTask(pool, { batchKey, slot, workerId, agentSha256: loaded.sha256, after: 0 });
      if (task === undefined) return;
      const lease = { batchKey, taskId: task.taskId, key: task.key, slot, workerId, token: task.leaseToken };
      const access = { apiKey: 'dummy', baseUrl: providerUrl };
      const hooks = { onSession: () => undefined, onActivity: () => undefined };
      const { ending, message } = await runAttempt(env, loaded, task, lease, access, hooks);
      if (ending !== 'completed') throw new Error(`task ${task.key} ended as ${ending}: ${message}`);
    }
  }

  return {
    name,
    async prepare(slots, tasks) {
      batches += 1;
      batchKey = await load(operator, `bench-${batches}`, slots * tasks, caps?.batch);
    },
    async run(slots) {
      const upkeep = setInterval(() => void pool.query('SELECT madrugada.tend_budgets()'), 1000); // as a worker process does
      try {
        await Promise.all(Array.from({ length: slots }, (_, slot) => runSlot(`slot-${slot}`)));
      } finally {
        clearInterval(upkeep);
      }
    },
    async close() {
      await Promise.all([close(), operator.end()]);
    },
  };
}

function thisMonth(): string {
  return new Date().toISOString().slice(0, 'yyyy-mm'.length);
}

/** Loads a batch of `count` tasks without input; its key. */
export async function load(
  operator: Parameters<typeof loadBatch>[0],
  id: string,
  count: number,
  caps: Caps['batch'] = {},
): Promise<string> {
  const batch = { id, version: 'v1', agent: 'prompt', agentOptions: {}, maxAttempts: 3, leaseSeconds: 600 };
  async function* tasks() {
    for (let position = 1; position <= count; position += 1)
      yield { position, item: String(position), inputJson: '{}' };
  }
  return (await loadBatch(operator, { ...batch, ...caps, doubtPolicy: 'pay_again' }, tasks())).batchKey;
}

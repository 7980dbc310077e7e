import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { loadBatch } from '../src/batch/load-batch.ts';
import { openClient } from '../src/postgres/connect.ts';
import type { Figure } from './figure.ts';
import { median } from './measure.ts';
import { runOrder } from './question-cpu.ts';
import type { MemoryFigures, MemoryOrder } from './sandbox-memory.ts';

const SANDBOXES = 64;
const TARGET_MB = 5;
const MB = 1024 * 1024;
const ROUNDS = 3;

/** What a slot costs in memory that only waits: for a call of its sandbox, or for a task. */
export async function measureMemory(url: string): Promise<Figure[]> {
  const growth = async (order: Omit<MemoryOrder, 'sandboxes'>) => {
    const sizes: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const { before, after } = await openSandboxes({ ...order, sandboxes: SANDBOXES });
      sizes.push((after - before) / SANDBOXES / MB);
    }
    return median(sizes);
  };
  return [
    {
      what: 'waiting sandbox, 200 KB of context',
      value: await growth({ readsAll: false, ownContexts: false }),
    },
    { what: '  all of it read and copied', value: await growth({ readsAll: true, ownContexts: false }) },
    { what: '  the same, each with documents of its own', value: await growth({ readsAll: true, ownContexts: true }) },
    { what: 'slot without a task', value: await slotGrowth(url) },
  ].map((figure) => ({ ...figure, unit: 'MB', target: TARGET_MB }));
}

async function openSandboxes(order: MemoryOrder): Promise<MemoryFigures> {
  const script = fileURLToPath(new URL('./sandbox-memory.ts', import.meta.url));
  const child = fork(script, [JSON.stringify(order)], { execArgv: ['--expose-gc'] });
  const [said] = await Promise.race([once(child, 'message'), once(child, 'exit')]);
  if (typeof said !== 'object') throw new Error(`the process ended with ${said} before it had measured`);
  child.kill('SIGKILL');
  return said as MemoryFigures;
}

/** Of two worker processes that have nothing to do, by the slots that one has more. */
async function slotGrowth(url: string): Promise<number> {
  const batchKey = await loadNothing(url);
  const rssOf = async (slots: number) => {
    const order = { url, providerUrl: 'http://127.0.0.1:9', batchKey, slots, warmUp: 0, measured: 0 };
    const sizes: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) sizes.push((await runOrder(order)).rssBytes);
    return median(sizes);
  };
  return ((await rssOf(1 + SANDBOXES)) - (await rssOf(1))) / SANDBOXES / MB;
}

/** A batch that is stopped: there is nothing to claim. */
async function loadNothing(url: string): Promise<string> {
  const client = await openClient({ url, as: 'operator', applicationName: 'bench load' });
  const batch = { id: 'nothing', version: 'v1', agent: 'prompt', agentOptions: {}, maxAttempts: 3, leaseSeconds: 600 };
  async function* tasks() {
    yield { position: 1, item: '1', inputJson: '{"question": "none"}' };
  }
  try {
    const { batchKey } = await loadBatch(client, { ...batch, doubtPolicy: 'pay_again' }, tasks());
    await client.query('SELECT madrugada.stop_batch($1, $2)', [batchKey, 'nothing is to be done']);
    return batchKey;
  } finally {
    await client.end();
  }
}

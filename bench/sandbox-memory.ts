import { setTimeout as delay } from 'node:timers/promises';
import { packContext } from '../src/agent/sandbox/pack-context.ts';
import { SandboxPool } from '../src/agent/sandbox/sandbox-pool.ts';
import { documents } from './sandbox-context.ts';
import { SETTINGS } from './sandbox-start.ts';

/** What the process is told, as its one argument. */
export interface MemoryOrder {
  sandboxes: number;
  /** Whether the code keeps a copy of all documents in its own memory, or has seen the first alone. */
  readsAll: boolean;
  /** Whether no two sandboxes have the same documents. */
  ownContexts: boolean;
}

/** Resident bytes of the process before and after the sandboxes were opened; one was open before. */
export interface MemoryFigures {
  before: number;
  after: number;
}

const order: MemoryOrder = JSON.parse(process.argv[2] ?? '');
const CODE = `print(context[0].text.slice(0, 500));
${order.readsAll ? "const whole = context.map(({ text }) => text).join(''); print(whole.length);" : ''}
await llm('wait');`;

const pool = new SandboxPool({ threads: 4, hardLimitMs: 30_000 });

/** Resolves when its code waits for its call. */
function openWaiting(edition: number): Promise<void> {
  return new Promise((resolve) => {
    const context = packContext(documents(39, 200_000, edition));
    const sandbox = pool.open(SETTINGS, context, () => {
      resolve();
      return new Promise(() => undefined);
    });
    void sandbox.run(1, [CODE]);
  });
}

async function residentBytes(): Promise<number> {
  for (let times = 0; times < 3; times += 1) {
    globalThis.gc?.();
    await delay(200); // what is freed goes back to the system in the background
  }
  return process.memoryUsage.rss();
}

for (let warm = 0; warm < 4; warm += 1) await openWaiting(0); // one on every thread
const before = await residentBytes();
for (let edition = 1; edition <= order.sandboxes; edition += 1) await openWaiting(order.ownContexts ? edition : 0);
const figures: MemoryFigures = { before, after: await residentBytes() };
process.send?.(figures);

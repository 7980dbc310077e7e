import { setTimeout as delay } from 'node:timers/promises';
import { type Context, packContext } from '../src/agent/sandbox/pack-context.ts';
import type { SandboxSettings } from '../src/agent/sandbox/protocol.ts';
import { SandboxPool } from '../src/agent/sandbox/sandbox-pool.ts';
import type { Figure } from './figure.ts';
import { median, secondsOf } from './measure.ts';
import { documents } from './sandbox-context.ts';

const ROUNDS = 50;
/** Before each measurement, for the end of the sandbox before it. */
const SETTLE_MS = 50;
const FIRST_LOOK = 'print(context.length);\nprint(context[0].text.slice(0, 500));';

export const SETTINGS: SandboxSettings = { seed: 'ab'.repeat(32), nowMs: 0, maxOutputChars: 10_000, canRecurse: false };

const SIZES = [
  { what: '200 KB in 39 documents', count: 39, bytes: 200_000, target: 25 },
  { what: '1 MB in 50 documents', count: 50, bytes: 1_000_000, target: 60 },
];

/** From the documents as they were read to the report of the first turn; of a context that the threads know, and of one that they do not. */
export async function measureStart(): Promise<Figure[]> {
  const pool = new SandboxPool({ threads: 2, hardLimitMs: 30_000 });
  try {
    const first = await timed(pool, documents(1, 1000));
    const figures: Figure[] = [{ what: 'first sandbox of a process, 1 KB', unit: 'ms', value: first }];
    for (const { what, count, bytes, target } of SIZES) {
      const same = documents(count, bytes);
      for (let round = 0; round < 4; round += 1) await timed(pool, same);
      const known: number[] = [];
      const fresh: number[] = [];
      for (let round = 1; round <= ROUNDS; round += 1) {
        known.push(await timed(pool, same));
        fresh.push(await timed(pool, documents(count, bytes, round)));
      }
      figures.push({ what: `start and first turn, ${what}`, unit: 'ms', value: median(known), target });
      figures.push({ what: '  a context of its own each time', unit: 'ms', value: median(fresh), target });
    }
    return figures;
  } finally {
    await pool.close();
  }
}

/** Milliseconds. */
async function timed(pool: SandboxPool, context: Context): Promise<number> {
  await delay(SETTLE_MS);
  const seconds = await secondsOf(async () => {
    const sandbox = pool.open(SETTINGS, packContext(context), () => Promise.reject(new Error('no call is expected')));
    const { failure, output } = await sandbox.run(1, [FIRST_LOOK]);
    sandbox.close();
    if (failure !== undefined || output.length < 500) throw new Error(`the first turn failed: ${failure ?? output}`);
  });
  return seconds * 1000;
}

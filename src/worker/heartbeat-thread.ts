import { setTimeout as delay } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import type { Client } from 'pg';
import { openClient } from '../postgres/connect.ts';
import type { HeartbeatData, HeldLease, HeldTask, LostLeases } from './heartbeat-protocol.ts';

/**
 * The heartbeat of a worker process, in a thread with a connection of its own: a busy main thread must not lose leases. It extends them only
 * while the main thread makes progress: a hung event loop or a stuck agent must lose them.
 */
const data: HeartbeatData = workerData;
const progress = new Int32Array(data.progress);
const leases = new Map<number, HeldTask>();
const watches = new Map<number, { value: number; since: number }>();

parentPort?.on('message', ({ slotIndex, lease }: HeldLease) => {
  watches.delete(slotIndex + 1);
  if (lease) leases.set(slotIndex, lease);
  else leases.delete(slotIndex);
});

/** Milliseconds since the word last changed. */
function standstill(word: number): number {
  const value = Atomics.load(progress, word);
  const watch = watches.get(word);
  if (watch?.value === value) return performance.now() - watch.since;
  watches.set(word, { value, since: performance.now() });
  return 0;
}

async function beat(client: Client): Promise<void> {
  const isHung = standstill(0) > data.hungMs;
  const held = [...leases].map(([slotIndex, lease]) => ({
    ...lease,
    advances: standstill(slotIndex + 1) <= data.stuckMs && !isHung,
  }));
  const { rows } = await client.query<HeldTask>(
    'SELECT lost_task AS "taskId", lost_token AS token FROM madrugada.heartbeat($1, $2, $3, $4)',
    [
      data.workerId,
      held.map(({ taskId }) => taskId),
      held.map(({ token }) => token),
      held.map(({ advances }) => advances),
    ],
  );
  if (rows.length > 0) parentPort?.postMessage({ lost: rows } satisfies LostLeases);
}

async function beatForEver(): Promise<never> {
  let client: Client | undefined;
  for (;;) {
    try {
      client ??= await openClient({
        url: data.url,
        as: 'worker',
        applicationName: `madrugada/w${data.workerId}/heartbeat`,
      });
      await beat(client);
    } catch {
      // The database is away: main thread and slots find that out themselves; the next beat tries a new connection.
      await client?.end().catch(() => undefined);
      client = undefined;
    }
    await delay(data.intervalMs);
  }
}

await beatForEver();

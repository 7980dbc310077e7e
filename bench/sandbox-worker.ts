import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { DEFAULT_LIMITS } from '../src/journal/environment.ts';
import { WorkerProcess } from '../src/worker/worker-process.ts';

/** What a worker process of the bench is told, as its one argument. */
export interface WorkerOrder {
  url: string;
  providerUrl: string;
  batchKey: string;
  slots: number;
  /** Questions before the measured ones. */
  warmUp: number;
  /** 0: the process looks at its memory when all slots have found nothing to do, and ends. */
  measured: number;
}

export interface WorkerFigures {
  /** CPU time of the whole process, its threads included, over the measured questions. */
  cpuMs: number;
  seconds: number;
  calls: number;
  rssBytes: number;
}

const IDLE_MS = 3_000;

/** The worker of a night, which measures itself. */
const order: WorkerOrder = JSON.parse(process.argv[2] ?? '');
let calls = 0;
let ended = 0;
let startCpu = process.cpuUsage();
let startedAt = performance.now();

const worker = new WorkerProcess({
  ...{ url: order.url, batchKey: order.batchKey, limits: DEFAULT_LIMITS, hungMs: 120_000, stuckMs: 900_000 },
  slots: Array.from({ length: order.slots }, (_, index) => `bench-${order.slots}.${index + 1}`),
  access: { apiKey: 'dummy', baseUrl: order.providerUrl },
  alwaysReplay: false,
  log: pino({ level: 'warn' }),
  onRegistered: () => undefined,
  onCharge() {
    calls += 1;
  },
  onAttemptEnd({ ending, message }) {
    if (ending !== 'completed') giveUp(`a question ended as ${ending}: ${message}`);
    ended += 1;
    if (ended === order.warmUp) begin();
    if (ended === order.warmUp + order.measured) report();
  },
});

function begin(): void {
  startCpu = process.cpuUsage();
  startedAt = performance.now();
}

function report(): void {
  const { user, system } = process.cpuUsage(startCpu);
  const seconds = (performance.now() - startedAt) / 1000;
  globalThis.gc?.();
  const figures: WorkerFigures = { cpuMs: (user + system) / 1000, seconds, calls, rssBytes: process.memoryUsage.rss() };
  process.send?.(figures);
  worker.stop('measured');
}

function giveUp(why: string): never {
  process.stderr.write(`${why}\n`);
  process.exit(1);
}

if (order.measured === 0) void delay(IDLE_MS).then(report);
await worker.run();
process.exit(0);

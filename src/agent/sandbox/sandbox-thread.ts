import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '../../errors.ts';
import { Guest } from './guest.ts';
import { GuestContext } from './guest-context.ts';
import {
  type FromThread,
  type PackedContext,
  RUNNING_SANDBOX,
  SLICE,
  type ThreadData,
  type ToThread,
} from './protocol.ts';

const { words } = workerData as ThreadData;

/** Contexts that are kept decoded, by digest: a night asks all its questions about few of them. */
const KEPT_CONTEXTS = 8;
const contexts = new Map<string, GuestContext>();
const guests = new Map<number, Promise<Guest>>();

// The clock of the guests is this thread's: each sees its own standing time, and the zone is UTC wherever the host may be.
let guestNow = 0;
Date.now = () => guestNow;
Date.prototype.getTimezoneOffset = () => 0;

parentPort?.on('message', (message: ToThread) => void receive(message));

async function receive(message: ToThread): Promise<void> {
  try {
    await handle(message);
  } catch (error) {
    guests.delete(message.sandbox);
    tell({ type: 'broken', sandbox: message.sandbox, message: whyBroken(error) });
  }
}

async function handle(message: ToThread): Promise<void> {
  const { sandbox } = message;
  if (message.type === 'open') {
    const guest = open(message);
    guests.set(sandbox, guest);
    await guest;
    return;
  }
  const guest = await guests.get(sandbox);
  if (message.type === 'run') guest?.run(message.turn, message.blocks);
  else if (message.type === 'settle') guest?.settle(message.call, message.ok, message.value);
  else if (guests.delete(sandbox)) guest?.close();
}

function open({ sandbox, settings, context }: Extract<ToThread, { type: 'open' }>): Promise<Guest> {
  return Guest.open(settings, contextOf(context), {
    enter: (nowMs, action) => enter(sandbox, nowMs, action),
    calls: (calls) => tell({ type: 'calls', sandbox, calls }),
    ended: (report) => tell({ type: 'ended', sandbox, report }),
  });
}

/** Shows the pool which sandbox runs, so that it can tell one that never comes back. */
function enter<T>(sandbox: number, nowMs: number, action: () => T): T {
  guestNow = nowMs;
  Atomics.add(words, SLICE, 1);
  Atomics.store(words, RUNNING_SANDBOX, sandbox);
  try {
    return action();
  } finally {
    Atomics.store(words, RUNNING_SANDBOX, 0);
  }
}

function contextOf(packed: PackedContext): GuestContext {
  const context = contexts.get(packed.digest) ?? new GuestContext(packed);
  contexts.delete(packed.digest);
  contexts.set(packed.digest, context);
  for (const digest of contexts.keys()) {
    if (contexts.size <= KEPT_CONTEXTS) break;
    contexts.delete(digest);
  }
  return context;
}

/** Where no memory is left, the engine may reach beyond it and trap. */
function whyBroken(error: unknown): string {
  const isTrap = error instanceof Error && error.name === 'RuntimeError';
  return isTrap ? `the engine broke down, as it may when its memory is used up: ${error.message}` : messageOf(error);
}

function tell(message: FromThread): void {
  parentPort?.postMessage(message);
}

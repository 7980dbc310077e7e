import Big from 'big.js';
import type { Logger } from 'pino';
import { messageOf } from '../errors.ts';
import type { WorkerSettings } from './settings.ts';
import type { WorkerMessage } from './worker-messages.ts';
import { WorkerProcess } from './worker-process.ts';

const ACCOUNT_MS = 500;

/**
 * Runs a worker process to its end: SIGTERM or SIGINT, or its supervisor's disappearance, gives the running tasks back once their calls in
 * flight are recorded; a second signal gives them up at once. Resolves to true when it was interrupted.
 */
export async function runWorker(
  options: WorkerSettings & { url: string; slots: string[]; batchKey: string | undefined; log: Logger },
): Promise<boolean> {
  const account = { calls: 0, usd: new Big(0), replayed: 0, lastFailure: undefined as string | undefined };
  const worker = new WorkerProcess({
    ...options,
    onRegistered: (workerId) => void tell({ type: 'registered', workerId }),
    onCharge(usd) {
      account.calls += 1;
      if (usd !== undefined) account.usd = account.usd.plus(usd);
    },
    onAttemptEnd(result) {
      account.replayed += result.replayedCalls;
      if (result.ending === 'failed') account.lastFailure = result.message;
    },
  });
  const report = () => tell({ type: 'account', ...account, usd: account.usd.toFixed() });
  const reporting = setInterval(report, ACCOUNT_MS);
  const interruption = interrupts(worker, options.log);
  // an agent's forgotten promise must not take down the process, and with it the calls of its other slots that are in flight
  const onForgotten = (reason: unknown) =>
    options.log.error(
      { err: messageOf(reason) },
      'a rejection was left unhandled, probably by an agent; the worker goes on',
    );
  process.on('unhandledRejection', onForgotten);
  try {
    await worker.run();
  } finally {
    clearInterval(reporting);
    await report();
    interruption.endListening();
    process.off('unhandledRejection', onForgotten);
  }
  return interruption.happened;
}

function interrupts(worker: WorkerProcess, log: Logger): { happened: boolean; endListening(): void } {
  const interruption = {
    happened: false,
    /** A listener for the supervisor's disappearance keeps its channel open, and the channel this process alive. */
    endListening() {
      process.off('disconnect', abandoned);
    },
  };
  const interrupt = (reason: string) => {
    // its calls in flight stay in doubt until this process is proven dead
    if (interruption.happened) process.exit(130);
    interruption.happened = true;
    log.info({ reason }, 'stopping: running tasks are given back once their calls in flight are recorded');
    worker.stop(reason);
  };
  process.on('SIGTERM', () => interrupt('stopped by SIGTERM'));
  // under a supervisor Ctrl-C reaches the whole group, and the supervisor alone decides
  process.on('SIGINT', () => process.connected || interrupt('stopped by SIGINT'));
  const abandoned = () => interrupt('its supervisor is gone');
  process.once('disconnect', abandoned);
  return interruption;
}

/** Resolves when the supervisor, if there is one, has been sent the message. */
function tell(message: WorkerMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => resolve());
    else resolve();
  });
}

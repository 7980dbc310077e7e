import type { Command } from 'commander';
import { destination, pino } from 'pino';
import { databaseUrl } from '../postgres/url.ts';
import { runWorker } from '../worker/run-worker.ts';
import { workerSettings } from '../worker/settings.ts';
import { positiveInteger } from './flags.ts';

const INTERRUPTED = 130;

const HELP = `
Claims tasks of every open batch, or of one, until it is told to stop. SIGTERM gives running tasks back once their calls in flight are
recorded, without using up an attempt; a second one ends at once. With --concurrency N, slots NAME.1 to NAME.N run in this process.

Example:
  madrugada worker --slot host-a/1 --concurrency 4`;

/** `madrugada worker`: one long-lived worker process. */
export function register(program: Command): void {
  program
    .command('worker')
    .description('run one long-lived worker process')
    .requiredOption('--slot <name>', 'the stable name of its slot, such as host-a/1')
    .option('--concurrency <n>', 'slots in this process', positiveInteger, 1)
    .option('--batch <id:version>', 'claim from this batch only')
    .addHelpText('after', HELP)
    .action(worker);
}

async function worker(flags: { slot: string; concurrency: number; batch?: string }): Promise<void> {
  const slots =
    flags.concurrency === 1
      ? [flags.slot]
      : Array.from({ length: flags.concurrency }, (_, n) => `${flags.slot}.${n + 1}`);
  const log = pino({ level: process.env.MADRUGADA_LOG ?? 'info' }, destination(2));
  const interrupted = await runWorker({
    ...workerSettings(process.env),
    url: await databaseUrl(),
    slots,
    batchKey: flags.batch,
    log,
  });
  // everything is recorded; what abandoned runs of agents still wait for, such as a client's timer, would keep the process for days
  process.exit(interrupted ? INTERRUPTED : 0);
}

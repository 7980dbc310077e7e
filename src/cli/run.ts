import { hostname } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { type ListedAction, tendActions } from '../action/list-actions.ts';
import { loadAgent } from '../agent/load-agent.ts';
import { type Batch, findBatch } from '../batch/find-batch.ts';
import { type Exposure, exposureSentence, readExposure } from '../bill/exposure.ts';
import { MadrugadaError } from '../errors.ts';
import { openPool } from '../postgres/connect.ts';
import { startEmbedded } from '../postgres/embedded.ts';
import { startSimulatedProvider } from '../rehearsal/simulated-provider.ts';
import { checkConnections } from '../worker/connection-budget.ts';
import { workerSettings } from '../worker/settings.ts';
import { type NightAccount, Supervisor } from '../worker/supervisor.ts';
import { positiveInteger } from './flags.ts';
import { NightProgress } from './night-progress.ts';
import { type CommonFlags, printProgress, printResult, snakeKeys } from './output.ts';
import { readyDatabase } from './ready-database.ts';
import { waitingActionLines, waitingActions } from './waiting-actions.ts';

interface RunFlags extends CommonFlags {
  workers: number;
  concurrency: number;
  slot: string;
  simulate?: boolean;
  bill?: string;
}

const INTERRUPTED = 130;
const LOOK = 1;

const HELP = `
Starts the worker processes, restarts one that dies, and ends when every task is completed or failed. Running it again goes on where it
stopped: recorded calls are replayed for free. Ctrl-C gives running tasks back.

Example:
  madrugada run 2026-11 --workers 4 --simulate
  ANTHROPIC_API_KEY=… madrugada run 2026-11:v3 --workers 4 --concurrency 8

Exit code 1: tasks failed, or wait for a person or a bill, or the batch was stopped.`;

/** `madrugada run`: the night of one batch, here. */
export function register(program: Command): void {
  program
    .command('run <batch>')
    .description('run the night of a batch here, until every task is completed or failed')
    .option('--workers <n>', 'worker processes', positiveInteger, 4)
    .option('--concurrency <n>', 'slots in each process', positiveInteger, 1)
    .option('--slot <name>', 'the first part of the slots’ names', hostname())
    .option('--simulate', 'start the simulated provider beside the night and use it')
    .option('--bill <file>', 'with --simulate: where the simulated provider writes its bill')
    .addHelpText('after', HELP)
    .action(run);
}

async function run(name: string, flags: RunFlags): Promise<void> {
  const url = await readyDatabase('operator');
  const pool = openPool({ url, as: 'operator', applicationName: 'madrugada/run', max: 2 });
  try {
    const batch = await findBatch(pool, name);
    if (batch.state !== 'open')
      throw new MadrugadaError(
        `batch ${batch.key} is ${batch.state}${batch.stopReason ? `: ${batch.stopReason}` : ''}`,
      );
    await loadAgent(batch.agent);
    await checkConnections(pool, flags.workers);
    const provider = flags.simulate
      ? await startSimulatedProvider(flags.bill ?? `${batch.id}_${batch.version}`)
      : undefined;
    if (provider) printProgress(`simulated provider on ${provider.url}, bill ${provider.bill}`);
    const { MADRUGADA_LOOK_UP } = process.env; // set to nothing it switches the simulated provider's look-up off
    const environment = {
      ...process.env,
      DATABASE_URL: url,
      ...provider?.environment,
      ...(MADRUGADA_LOOK_UP !== undefined && { MADRUGADA_LOOK_UP }),
    };
    workerSettings(environment); // a missing key is said before anything starts
    try {
      const { account, interrupted } = await superviseNight(pool, batch, flags, environment);
      await tendActions(pool);
      const open = { exposure: await readExposure(pool, batch.key), actions: await waitingActions(pool, batch.key) };
      conclude(batch, flags, account, interrupted, provider?.bill, open);
    } finally {
      await provider?.stop();
    }
  } finally {
    await pool.end();
  }
}

async function superviseNight(
  pool: ReturnType<typeof openPool>,
  batch: Batch,
  flags: RunFlags,
  environment: NodeJS.ProcessEnv,
): Promise<{ account: NightAccount; interrupted: boolean }> {
  const abort = new AbortController();
  const progress = new NightProgress();
  const script = fileURLToPath(import.meta.resolve(import.meta.url.endsWith('.ts') ? './main.ts' : './main.js'));
  const supervisor = new Supervisor({
    pool,
    batchKey: batch.key,
    workers: flags.workers,
    workerCommand: (index) => ({
      script,
      arguments: [
        'worker',
        '--slot',
        `${flags.slot}/${index}`,
        '--concurrency',
        String(flags.concurrency),
        '--batch',
        batch.key,
      ],
    }),
    environment: { MADRUGADA_LOG: 'warn', ...environment },
    onProgress: (account) => progress.show(account),
    onWorkerEnd: (line) => progress.note(line),
    // with a server of one's own, its restart is somebody else's duty and is waited for
    revive: async () => void (process.env.DATABASE_URL || (await startEmbedded())),
    signal: abort.signal,
  });
  const interrupt = () => (abort.signal.aborted ? supervisor.hurry() : abort.abort());
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, interrupt);
  try {
    return { account: await supervisor.run(), interrupted: abort.signal.aborted };
  } finally {
    progress.stop();
  }
}

function conclude(
  batch: Batch,
  flags: RunFlags,
  account: NightAccount,
  interrupted: boolean,
  bill: string | undefined,
  { exposure, actions }: { exposure: Exposure; actions: ListedAction[] },
): void {
  const { completed, failed, waiting, pending, total, calls, replayed, restarts } = account;
  const usd = account.usd.toFixed();
  const lines = [
    `batch ${batch.key}: ${completed} of ${total} tasks completed, ${failed} failed, ${calls} calls in this run for US$ ${usd}, ${replayed} replayed`,
    exposureSentence(exposure),
    ...(interrupted ? [`interrupted; its work was given back. madrugada run ${batch.key} goes on`] : []),
    ...(failed > 0
      ? [`madrugada status ${batch.key} lists what failed; last failure: ${account.lastFailure ?? 'in an earlier run'}`]
      : []),
    ...(waiting > 0 ? [`${waiting} tasks wait for a bill or a person: madrugada status ${batch.key}`] : []),
    ...waitingActionLines(actions, batch.key),
    ...(account.state !== 'open'
      ? [
          `the batch is ${account.state}: ${account.stopReason ?? ''}; madrugada batch resume ${batch.key} --by WHO --reason TEXT`,
        ]
      : []),
    ...(bill
      ? [`the provider's bill: madrugada bill import ${batch.key} ${bill}, then madrugada audit ${batch.key}`]
      : []),
  ];
  printResult(
    flags,
    {
      batch: batch.key,
      total,
      completed,
      failed,
      waiting,
      pending,
      calls,
      usd,
      replayed,
      restarts,
      interrupted,
      state: account.state,
      bill: bill ?? null,
      exposure: snakeKeys(exposure),
      actions: actions.map(snakeKeys),
    },
    lines.join('\n'),
  );
  if (interrupted) process.exitCode = INTERRUPTED;
  else if (completed < total) process.exitCode = LOOK;
}

import type { Command } from 'commander';

interface CommandModule {
  register(program: Command): void;
}

/**
 * Every command and the file that defines it, in the order of `--help`. Loaded only when asked for: `madrugada db url` stands in
 * scripts and must not wait for the provider's SDK.
 */
const COMMANDS: Record<string, () => Promise<CommandModule>> = {
  init: () => import('./init.ts'),
  db: () => import('./db.ts'),
  batch: () => import('./batch.ts'),
  budget: () => import('./budget.ts'),
  price: () => import('./price.ts'),
  run: () => import('./run.ts'),
  worker: () => import('./worker.ts'),
  status: () => import('./status.ts'),
  stop: () => import('./stop.ts'),
  resume: () => import('./resume.ts'),
  alert: () => import('./alert.ts'),
  answers: () => import('./answers.ts'),
  task: () => import('./task.ts'),
  action: () => import('./action.ts'),
  retry: () => import('./retry.ts'),
  audit: () => import('./audit.ts'),
  bill: () => import('./bill.ts'),
  doubt: () => import('./doubt.ts'),
  doctor: () => import('./doctor.ts'),
  rehearse: () => import('./rehearse.ts'),
  'simulate-provider': () => import('./simulate-provider.ts'),
};

/** Registers the command that the arguments name, or all of them where they name none that exists (help, a typing error). */
export async function registerCommands(program: Command, args: string[]): Promise<void> {
  const wanted = args.find((arg) => !arg.startsWith('-')) ?? '';
  const load = COMMANDS[wanted];
  const modules = await Promise.all((load === undefined ? Object.values(COMMANDS) : [load]).map((one) => one()));
  for (const module of modules) module.register(program);
}

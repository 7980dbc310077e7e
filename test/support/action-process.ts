import { hash } from 'node:crypto';
import { join } from 'node:path';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { type RunningCommand, startCommand } from './command.ts';

const SCRIPT = join(packageRoot(), 'test', 'support', 'execute-action.ts');

/** Starts an execution in a process of its own; `failpoint` is where it meets its end. */
export function startExecution(
  args: string[],
  { failpoint = '', bankUrl = '' }: { failpoint?: string; bankUrl?: string } = {},
): RunningCommand {
  return startCommand(args, {
    script: SCRIPT,
    environment: { MADRUGADA_FAILPOINT: failpoint, BANK_URL: bankUrl },
  });
}

/** A key as the engine makes them. */
export function keyOf(name: string): string {
  return hash('sha256', name);
}

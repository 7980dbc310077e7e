import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { packageRoot } from '../../src/postgres/package-root.ts';

/** What a command did. */
export interface CommandResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** A command under way. */
export interface RunningCommand {
  process: ChildProcess;
  result: Promise<CommandResult>;
}

/** Where and with what a command runs. `environment` is all it gets beside the path: nobody's keys and servers. */
export interface CommandOptions {
  environment?: Record<string, string>;
  folder?: string;
  input?: string;
  /** Another program than the command line's: a script of a test. */
  script?: string;
  /** In a process group of its own, which `process.kill(-pid)` strikes. */
  group?: boolean;
}

const MAIN = join(packageRoot(), 'src', 'cli', 'main.ts');
/** No test reaches a provider: nothing listens on port 9. */
const NOBODY = { ANTHROPIC_API_KEY: 'dummy', ANTHROPIC_BASE_URL: 'http://127.0.0.1:9' };

/** Starts a `madrugada` command in a process of its own. */
export function startCommand(args: string[], options: CommandOptions = {}): RunningCommand {
  const child = spawn(process.execPath, [options.script ?? MAIN, ...args], {
    env: { PATH: process.env.PATH, ...NOBODY, ...options.environment },
    cwd: options.folder,
    detached: options.group ?? false,
    stdio: 'pipe',
  });
  child.stdin.end(options.input ?? '');
  return { process: child, result: resultOf(child) };
}

/** Runs a `madrugada` command to its end. */
export function runCommand(args: string[], options: CommandOptions = {}): Promise<CommandResult> {
  return startCommand(args, options).result;
}

async function resultOf(child: ChildProcess): Promise<CommandResult> {
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('the command has no output');
  const [[code, signal], out, errors] = await Promise.all([once(child, 'exit'), text(stdout), text(stderr)]);
  return { code, signal, stdout: out, stderr: errors };
}

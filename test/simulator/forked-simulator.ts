import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import type { BillLine } from '../../src/simulator/bill-file.ts';

const MAIN = fileURLToPath(new URL('../../src/simulator/main.ts', import.meta.url));

const SLOW_DISK = new URL('./slow-disk.ts', import.meta.url).href;

/** A simulator in a process of its own, with the official client pointed at it. */
export class ForkedSimulator {
  readonly url: string;
  readonly billPath: string;
  readonly process: ChildProcess;
  readonly client: Anthropic;

  constructor(url: string, billPath: string, process: ChildProcess) {
    this.url = url;
    this.billPath = billPath;
    this.process = process;
    this.client = new Anthropic({ apiKey: 'dummy', baseURL: url, maxRetries: 0 });
  }

  async billLines(): Promise<BillLine[]> {
    const text = await readFile(this.billPath, 'utf8');
    return text
      .split('\n')
      .slice(0, -1)
      .map((line): BillLine => JSON.parse(line));
  }

  /** Waits until the bill has `count` lines. */
  async billed(count: number): Promise<BillLine[]> {
    for (;;) {
      const lines = await this.billLines();
      if (lines.length >= count) return lines;
      await setTimeout(20);
    }
  }

  /** Sends `signal` and resolves with the exit code once the process has ended. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const exited = once(this.process, 'exit');
      this.process.kill(signal);
      await exited;
    }
    return this.process.exitCode;
  }
}

/** Starts `node src/simulator/main.ts --bill BILL FLAGS`; with `slowDisk`, a file, nothing gets onto the disk while that exists. */
export async function forkSimulator(
  bill: string,
  flags: readonly string[] = [],
  { slowDisk }: { slowDisk?: string } = {},
): Promise<ForkedSimulator> {
  const child = spawn(
    process.execPath,
    [...(slowDisk ? ['--import', SLOW_DISK] : []), MAIN, '--bill', bill, ...flags],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ...(slowDisk && { SLOW_DISK_GATE: slowDisk }) },
    },
  );
  const lines = createInterface({ input: child.stdout });
  const [line] = await Promise.race([once(lines, 'line'), once(child, 'exit').then(() => ['{}'])]);
  const { url } = JSON.parse(String(line));
  if (typeof url !== 'string') throw new Error(`the simulator ended with ${child.exitCode} before it listened`);
  return new ForkedSimulator(url, bill, child);
}

/** Runs `main.ts` to its end, for flags it should refuse. */
export async function runToExit(flags: readonly string[]): Promise<{ code: number | null; stderr: string }> {
  const child = spawn(process.execPath, [MAIN, ...flags], { stdio: ['ignore', 'ignore', 'pipe'] });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  await once(child, 'close');
  return { code: child.exitCode, stderr };
}

/** A folder for bills, removed by `remove`. */
export async function temporaryFolder(): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'madrugada-simulator-'));
  return { path, remove: () => rm(path, { recursive: true }) };
}

/** Parameters of a plain request; `prompt` makes requests differ. */
export function ask(prompt: string, model = 'claude-haiku-4-5') {
  return { model, max_tokens: 1000, messages: [{ role: 'user' as const, content: prompt }] };
}

/** Request options carrying `x-simulate`. */
export function wish(header: string) {
  return { headers: { 'x-simulate': header } };
}

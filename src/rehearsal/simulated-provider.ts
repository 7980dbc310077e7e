import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { MadrugadaError } from '../errors.ts';
import { madrugadaHome } from '../postgres/home.ts';

/** A simulated provider in a process of its own, as another company's server would be. */
export interface SimulatedProvider {
  url: string;
  bill: string;
  pid: number;
  /** What points agents at it. */
  environment: { ANTHROPIC_BASE_URL: string; ANTHROPIC_API_KEY: string; MADRUGADA_LOOK_UP: string };
  stop(): Promise<void>;
}

/** Starts one. `bill` is a file, or the name of a batch whose bill is kept under `$MADRUGADA_HOME/bills`. */
export async function startSimulatedProvider(bill: string, flags: string[] = []): Promise<SimulatedProvider> {
  const file =
    bill.includes('/') || bill.endsWith('.jsonl') ? resolve(bill) : join(madrugadaHome(), 'bills', `${bill}.jsonl`);
  mkdirSync(dirname(file), { recursive: true });
  const script = fileURLToPath(
    import.meta.resolve(import.meta.url.endsWith('.ts') ? '../simulator/main.ts' : '../simulator/main.js'),
  );
  // detached, so that Ctrl-C reaches the night first and answers under way are still given
  const child = fork(script, ['--port', '0', '--bill', file, ...flags], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    detached: true,
  });
  const { stdout } = child;
  if (stdout === null) throw new Error('the simulated provider has no output');
  const line = await Promise.race([once(createInterface(stdout), 'line'), once(child, 'exit')]);
  if (typeof line[0] !== 'string')
    throw new MadrugadaError(`the simulated provider did not start (exit ${line[0]})`, 3);
  const { url } = JSON.parse(line[0]) as { url: string };
  return {
    url,
    bill: file,
    pid: child.pid ?? 0,
    environment: {
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: 'simulated',
      MADRUGADA_LOOK_UP: `${url}/v1/dispatches/{tag}`,
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}

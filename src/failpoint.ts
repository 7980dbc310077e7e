import { existsSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Named places at which tests and rehearsals make the worst happen. Without `MADRUGADA_FAILPOINT` every passage is a no-op.
 *
 * `MADRUGADA_FAILPOINT=name:action@n` acts at the n-th passage (every passage without `@n`); `name[key]` counts only passages for that key,
 * such as a task's. Several are separated by commas. Actions:
 * `kill` (SIGKILL to this process), `stop` (SIGSTOP to it), `throw`, `create(FILE)`, `gate(FILE)` (wait while FILE exists). `kill(FILE)` and
 * `stop(FILE)` act only if FILE does not exist yet, and create it: once for a whole fleet, restarts included.
 */
interface Failpoint {
  name: string;
  key: string | undefined;
  action: string;
  argument: string;
  at: number | undefined;
  passages: number;
}

const SYNTAX = /^([\w.]+)(?:\[([^\]]*)\])?:(kill|stop|throw|create|gate)(?:\(([^)]*)\))?(?:@(\d+))?$/;

const points: Failpoint[] = parse(process.env.MADRUGADA_FAILPOINT ?? '');

function parse(text: string): Failpoint[] {
  return text
    .split(',')
    .filter((part) => part !== '')
    .map((part) => {
      const [, name, key, action, argument, at] = SYNTAX.exec(part) ?? [];
      if (name === undefined || action === undefined)
        throw new Error(`MADRUGADA_FAILPOINT: cannot read "${part}"; expected name[key]:action(argument)@n`);
      return {
        name,
        key,
        action,
        argument: argument ?? '',
        at: at === undefined ? undefined : Number(at),
        passages: 0,
      };
    });
}

/** Passes the failpoint `name`; `key` is what the passage is about, usually a task key. */
export async function failpoint(name: string, key = ''): Promise<void> {
  for (const point of points) {
    if (point.name !== name || (point.key !== undefined && point.key !== key)) continue;
    point.passages += 1;
    if (point.at === undefined || point.at === point.passages) await act(point);
  }
}

async function act(point: Failpoint): Promise<void> {
  if ((point.action === 'kill' || point.action === 'stop') && point.argument !== '' && !createFirst(point.argument))
    return;
  switch (point.action) {
    case 'kill':
      process.kill(process.pid, 'SIGKILL');
      return new Promise(() => undefined); // the signal may take a moment; nothing more happens here
    case 'stop':
      process.kill(process.pid, 'SIGSTOP');
      return;
    case 'create':
      writeFileSync(point.argument, '');
      return;
    case 'gate':
      while (existsSync(point.argument)) await delay(10);
      return;
    default:
      throw new Error(`failpoint ${point.name}`);
  }
}

/** True for the one caller who creates the file. */
function createFirst(file: string): boolean {
  try {
    writeFileSync(file, '', { flag: 'wx' });
    return true;
  } catch {
    return false; // somebody was here before
  }
}

import { execFileSync } from 'node:child_process';
import { readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';

/** A running server process as its own postmaster.pid describes it. */
export interface Postmaster {
  pid: number;
  /** The port it listens on; 0 while it has not said so yet. */
  port: number;
  /** Does it accept connections? False during start, recovery and shutdown. */
  ready: boolean;
}

/**
 * The server that runs on this data directory, or undefined. A postmaster.pid left by a killed server is recognised even if
 * its process id belongs to another program by now.
 */
export function findPostmaster(data: string): Postmaster | undefined {
  const lines = pidFileLines(data);
  const pid = Number(lines?.[0]);
  if (lines === undefined || !Number.isInteger(pid) || pid <= 1 || !isServerProcess(pid, data)) return undefined;
  return { pid, port: Number(lines[3] || 0), ready: lines[7]?.trim() === 'ready' };
}

/**
 * Puts our own process id into a postmaster.pid left by a dead server. Postgres refuses to start while the recorded id is
 * alive, whoever has it now, except when it is its parent's: so the file is kept, and with it the check on the old server's
 * shared memory, which keeps a second server off backends that survived the first.
 */
export function disownPidFile(data: string): void {
  const lines = pidFileLines(data);
  if (lines === undefined) return;
  lines[0] = String(process.pid);
  writeFileSync(join(data, 'postmaster.pid'), lines.join('\n'));
}

function pidFileLines(data: string): string[] | undefined {
  try {
    return readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

function isServerProcess(pid: number, data: string): boolean {
  return process.platform === 'linux' ? isServerOnLinux(pid, data) : isServerByPs(pid, data);
}

/** Read from the command line, which anybody may read: root in a container may not follow `/proc/PID/exe` of another user. */
function isServerOnLinux(pid: number, data: string): boolean {
  try {
    const [program = '', ...rest] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0'); // empty for a zombie
    return basename(program) === 'postgres' && rest.includes(realpathSync(data));
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH')) return false;
    throw error;
  }
}

function isServerByPs(pid: number, data: string): boolean {
  try {
    const command = execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], {
      encoding: 'utf8',
      stdio: 'pipe',
    });
    return command.includes('postgres') && command.includes(data);
  } catch (error) {
    if (error instanceof Error && 'status' in error && error.status === 1) return false; // no such process
    throw error;
  }
}

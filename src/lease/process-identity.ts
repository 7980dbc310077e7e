import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** What tells one process from every other, on this machine and elsewhere (rule R7). */
export interface ProcessIdentity {
  /** Machine id (or `MADRUGADA_HOST_ID`) and pid namespace: only a process of the same host may judge a pid. */
  host: string;
  bootId: string;
  pid: number;
  /** Clock ticks from boot to the process's start: tells a reused pid apart. 0 where the system does not say. */
  pidStartedAt: number;
}

/** The identity of this process. */
export function thisProcess(): ProcessIdentity {
  return { ...thisHost(), pid: process.pid, pidStartedAt: statOf(process.pid)?.startedAt ?? 0 };
}

function thisHost(): { host: string; bootId: string } {
  const machine =
    process.env.MADRUGADA_HOST_ID ?? read('/etc/machine-id') ?? read('/var/lib/dbus/machine-id') ?? hostname();
  return {
    host: `${machine}/${link('/proc/self/ns/pid') ?? process.platform}`,
    bootId: read('/proc/sys/kernel/random/boot_id') ?? 'unknown',
  };
}

/**
 * How a process is known to have died, or undefined where that is not proven: it lives, or it is not ours to judge. A frozen process lives.
 */
export function proofOfDeath(of: ProcessIdentity): string | undefined {
  const here = thisHost();
  const [machine] = here.host.split('/');
  if (of.host.split('/')[0] === machine && of.bootId !== here.bootId && here.bootId !== 'unknown')
    return 'its machine was restarted';
  if (of.host !== here.host || of.bootId !== here.bootId) return undefined;
  if (!exists(of.pid)) return 'its process is gone';
  const stat = statOf(of.pid);
  if (stat && of.pidStartedAt !== 0 && stat.startedAt !== of.pidStartedAt)
    return 'its process is gone, and its number has been reused';
  if (stat && ['Z', 'X'].includes(stat.state) && !hasLivingThread(of.pid))
    return 'its process has ended and waits to be reaped';
  return undefined;
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}

/** State and start of a process by /proc/PID/stat, whose second field may hold spaces and parentheses. */
function statOf(path: number | string): { state: string; startedAt: number } | undefined {
  const text = read(`/proc/${path}/stat`);
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state] = fields ?? [];
  return fields && state ? { state, startedAt: Number(fields[19]) } : undefined;
}

function hasLivingThread(pid: number): boolean {
  const threads = read(`/proc/${pid}/status`)?.match(/^Threads:\s+(\d+)/m)?.[1];
  return Number(threads ?? 0) > 1;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim() || undefined;
  } catch {
    return undefined; // not this kind of system
  }
}

function link(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined; // not this kind of system
  }
}

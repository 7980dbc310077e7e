import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { afterEach, expect, test } from 'vitest';
import { type ProcessIdentity, proofOfDeath, thisProcess } from '../../src/lease/process-identity.ts';
import { until } from '../support/until.ts';

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

function start(program: string, ...args: string[]): ChildProcess {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  children.push(child);
  return child;
}

/** The fields of /proc/PID/stat after the program's name: the state is the first. */
function stat(pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

/** A process of this host as it would have registered itself. */
const identityOf = (pid = 0): ProcessIdentity => ({ ...thisProcess(), pid, pidStartedAt: Number(stat(pid)[19]) });

/** A process that can have no living one's number. */
const GONE = 4_194_305;

test('a process is alive to itself', () => {
  expect(proofOfDeath(thisProcess())).toBeUndefined();
});

test('a process that runs is not dead', () => {
  expect(proofOfDeath(identityOf(start('cat').pid))).toBeUndefined();
});

test('a frozen process is not dead, however long it stands still', async () => {
  const { pid } = start('cat');
  process.kill(pid ?? 0, 'SIGSTOP');
  await until('the process is stopped', () => stat(pid ?? 0)[0] === 'T');
  expect(proofOfDeath(identityOf(pid))).toBeUndefined();
});

test('a process that was killed and reaped is dead', async () => {
  const child = start('cat');
  const identity = identityOf(child.pid);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(proofOfDeath(identity)).toBe('its process is gone');
});

test('a process that has ended and was not reaped yet is dead', async () => {
  const parent = start('sh', '-c', 'tail -f /dev/null & echo $!; exec cat'); // cat waits for nobody
  const [line] = await once(createInterface(parent.stdout as NodeJS.ReadableStream), 'line');
  const pid = Number(line);
  await until('the shell is gone', () => readFileSync(`/proc/${parent.pid}/comm`, 'utf8') === 'cat\n');
  process.kill(pid, 'SIGKILL');
  await until('the process has ended', () => stat(pid)[0] === 'Z');
  expect(proofOfDeath(identityOf(pid))).toBe('its process has ended and waits to be reaped');
});

const hasPython = spawnSync('python3', ['-c', '']).status === 0;
test.skipIf(!hasPython)('a process whose first thread has ended lives on in its others (needs python3)', async () => {
  const code = `
import ctypes, threading, sys
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).pthread_exit(None)`;
  const { pid = 0 } = start('python3', '-c', code);
  await until('the first thread has ended', () => stat(pid)[0] === 'Z');
  expect(proofOfDeath(identityOf(pid))).toBeUndefined();
});

test('a process whose number has been given to another is dead', () => {
  const { pid } = start('cat');
  const earlier = { ...identityOf(pid), pidStartedAt: 1 };
  expect(proofOfDeath(earlier)).toBe('its process is gone, and its number has been reused');
});

test('a process of an earlier boot of the same machine is dead', () => {
  expect(proofOfDeath({ ...thisProcess(), bootId: 'earlier' })).toBe('its machine was restarted');
});

test('a process of an earlier boot in another container of the same machine is dead', () => {
  const [machine] = thisProcess().host.split('/');
  expect(proofOfDeath({ ...thisProcess(), host: `${machine}/pid:[1]`, bootId: 'earlier' })).toBe(
    'its machine was restarted',
  );
});

test('another machine’s process is never said to be dead, whatever its boot and its number', () => {
  const namespace = thisProcess().host.split('/')[1];
  for (const bootId of [thisProcess().bootId, 'another'])
    expect(proofOfDeath({ host: `another/${namespace}`, bootId, pid: GONE, pidStartedAt: 1 })).toBeUndefined();
});

test('a number of another container means nothing here, though it is the same machine', () => {
  const [machine] = thisProcess().host.split('/');
  expect(proofOfDeath({ ...thisProcess(), host: `${machine}/pid:[1]`, pid: GONE })).toBeUndefined();
});

test('machines that share an id, such as cloned ones, are told apart by MADRUGADA_HOST_ID', () => {
  const before = thisProcess();
  process.env.MADRUGADA_HOST_ID = 'clone-2';
  try {
    expect(thisProcess().host).toMatch(/^clone-2\//);
    expect(proofOfDeath({ ...before, pid: GONE })).toBeUndefined();
  } finally {
    delete process.env.MADRUGADA_HOST_ID;
  }
});

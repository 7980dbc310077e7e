import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { ServerAccount } from './server-account.ts';

const READ = 4;
const SEARCH = 1;

/**
 * Can `account` read the existing file or folder `path`? Judged by permission bits: every folder above must be searchable.
 * Always true for undefined, which stands for ourselves.
 */
export function isReachable(path: string, account: ServerAccount | undefined): boolean {
  if (account === undefined) return true;
  const isFolder = statSync(path).isDirectory();
  if (!allows(path, account, isFolder ? READ | SEARCH : READ)) return false;
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (!allows(folder, account, SEARCH)) return false;
    if (folder === dirname(folder)) return true;
  }
}

function allows(path: string, { uid, gid }: ServerAccount, wanted: number): boolean {
  const { mode, uid: owner, gid: group } = statSync(path);
  const granted = owner === uid ? mode >> 6 : group === gid ? mode >> 3 : mode;
  return (granted & wanted) === wanted;
}

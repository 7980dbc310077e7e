import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { MadrugadaError, messageOf } from '../errors.ts';

const NAME = 'postgres';

/** Ids of the operating-system user that the server runs as. */
export interface ServerAccount {
  uid: number;
  gid: number;
}

/**
 * The account for the server's processes, or undefined when they run as ourselves. Postgres refuses to run as root, so root
 * borrows the user `postgres`, which is created where it does not exist.
 */
export function serverAccount(): ServerAccount | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const known = findAccount();
  if (known !== undefined) return known;
  createAccount();
  const created = findAccount();
  if (created === undefined) throw accountError('it was created but cannot be found in /etc/passwd');
  return created;
}

function findAccount(): ServerAccount | undefined {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${NAME}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}

/** Debian, Fedora and most others have `useradd`; Alpine has only busybox's `adduser`. */
function createAccount(): void {
  try {
    execFileSync('useradd', ['--system', '--user-group', '--no-create-home', '--shell', '/bin/false', NAME], {
      stdio: 'pipe',
    });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw accountError(messageOf(error));
    try {
      execFileSync('adduser', ['-S', '-D', '-H', '-s', '/bin/false', NAME], { stdio: 'pipe' });
    } catch (second) {
      throw accountError(messageOf(second));
    }
  }
}

function accountError(reason: string): MadrugadaError {
  return new MadrugadaError(
    `Postgres does not run as root, and the user "${NAME}" to run it as cannot be had: ${reason.trim()}. ` +
      'Run madrugada as an ordinary user, or set DATABASE_URL to a server of your own.',
  );
}

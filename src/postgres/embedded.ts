import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { MadrugadaError } from '../errors.ts';
import { createCluster } from './create-cluster.ts';
import { madrugadaHome } from './home.ts';
import { awaitReady, findFreePort, isPortFree, type Launch, launchServer, SurvivorsLeft } from './launch-server.ts';
import { disownPidFile, findPostmaster } from './postmaster.ts';
import { isReachable } from './reachable.ts';
import { type ServerAccount, serverAccount } from './server-account.ts';
import { SHARED_FOLDER, serverBinaries } from './server-binaries.ts';
import { dataDirectory, newRecord, readRecord, recordUrl, type ServerRecord, writeRecord } from './server-record.ts';
import { withStartLock } from './start-lock.ts';

const MAJOR_VERSION = '18';
const PORT_TRIES = 5;
const POLL_MS = 20;
const SURVIVORS_POLL_MS = 100;
/** A session that works on a long statement looks up after it. */
const SURVIVORS_LIMIT_MS = 60_000;

/** A running embedded server. */
export interface EmbeddedServer {
  /** Contains the password. */
  url: string;
  port: number;
  /** Was it this call that started it? */
  started: boolean;
}

/**
 * The embedded server of `home`, created and started where needed; it then runs until `stopEmbedded`, whoever started it.
 * Safe when several commands call it at once, and after any crash. Prefers the port it had before; a taken one is replaced.
 * Throws a MadrugadaError if the data directory is another version's, or the server does not start.
 */
export async function startEmbedded(home: string = madrugadaHome()): Promise<EmbeddedServer> {
  const record = readRecord(home);
  if (record !== undefined) {
    refuseOtherVersion(dataDirectory(home, record));
    const running = runningServer(home, record);
    if (running !== undefined) return running;
  }
  if (process.platform === 'win32')
    throw new MadrugadaError('the embedded database runs on Linux and macOS; set DATABASE_URL to a server of your own');
  const account = serverAccount();
  // Root's home stays searchable where its parents are, so that the server's account can reach the data below it.
  mkdirSync(home, { recursive: true, mode: account === undefined ? 0o700 : 0o755 });
  return withStartLock(home, () => startLocked(home, account));
}

/**
 * Stops the server of `home` and waits until it is gone. `fast` ends its sessions in order; `immediate` is the crash that the
 * next start recovers from. False if none was running.
 */
export async function stopEmbedded(
  home: string = madrugadaHome(),
  mode: 'fast' | 'immediate' = 'fast',
): Promise<boolean> {
  const record = readRecord(home);
  if (record === undefined) return false;
  const data = dataDirectory(home, record);
  return withStartLock(home, async () => {
    const postmaster = findPostmaster(data);
    if (postmaster === undefined) return false;
    process.kill(postmaster.pid, mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
    while (findPostmaster(data)?.pid === postmaster.pid) await delay(POLL_MS);
    return true;
  });
}

async function startLocked(home: string, account: ServerAccount | undefined): Promise<EmbeddedServer> {
  const record = readRecord(home) ?? recordNewServer(home, account);
  const data = dataDirectory(home, record);
  refuseOtherVersion(data);
  if (await awaitReady(data)) {
    const running = runningServer(home, record);
    if (running !== undefined) return running;
  }
  const binaries = serverBinaries(account);
  if (!existsSync(data)) await createCluster(data, record.password, binaries, account);
  const port = await launchOnSomePort(home, record, { postgres: binaries.postgres, account });
  return { url: recordUrl({ ...record, port }), port, started: true };
}

/** Free ports can be taken between looking and listening, so a failed start is repeated if its port is taken by then. */
async function launchOnSomePort(
  home: string,
  record: ServerRecord,
  program: { postgres: string; account: ServerAccount | undefined },
): Promise<number> {
  const data = realpathSync(dataDirectory(home, record));
  const log = join(home, 'postgres.log');
  let { port } = record;
  for (let attempt = 1; ; attempt += 1) {
    if (port === 0 || !(await isPortFree(port))) port = await findFreePort();
    writeRecord(home, { ...record, port });
    disownPidFile(data);
    try {
      await launchAfterSurvivors({ ...program, data, port, log });
      return port;
    } catch (error) {
      if (attempt === PORT_TRIES || (await isPortFree(port))) throw error;
    }
  }
}

/** Sessions of a killed server end by themselves, each when it next looks up; until then the data is theirs. */
async function launchAfterSurvivors(launch: Launch): Promise<void> {
  const giveUpAt = performance.now() + SURVIVORS_LIMIT_MS;
  for (;;) {
    try {
      return await launchServer(launch);
    } catch (error) {
      if (!(error instanceof SurvivorsLeft) || performance.now() > giveUpAt) throw error;
    }
    await delay(SURVIVORS_POLL_MS);
  }
}

function runningServer(home: string, record: ServerRecord): EmbeddedServer | undefined {
  const data = dataDirectory(home, record);
  const postmaster = findPostmaster(data);
  if (postmaster?.ready !== true) return undefined;
  return { url: recordUrl({ ...record, port: postmaster.port }), port: postmaster.port, started: false };
}

function refuseOtherVersion(data: string): void {
  const file = join(data, 'PG_VERSION');
  if (!existsSync(file)) return;
  const version = readFileSync(file, 'utf8').trim();
  if (version !== MAJOR_VERSION)
    throw new MadrugadaError(
      `the data directory ${data} belongs to PostgreSQL ${version}, and this version of madrugada brings PostgreSQL ${MAJOR_VERSION}. ` +
        `Nothing was changed. Run a PostgreSQL ${version} on it and set DATABASE_URL, or start afresh with another MADRUGADA_HOME.`,
    );
}

/** The password is on disk before anything is protected by it. */
function recordNewServer(home: string, account: ServerAccount | undefined): ServerRecord {
  const record = newRecord(isReachable(home, account) ? 'postgres' : foreignDataDirectory(home));
  const parent = dirname(dataDirectory(home, record));
  if (parent !== home && account !== undefined) {
    mkdirSync(parent, { recursive: true, mode: 0o755 });
    chmodSync(SHARED_FOLDER, 0o755);
    chmodSync(parent, 0o700);
    chownSync(parent, account.uid, account.gid);
  }
  writeRecord(home, record);
  return record;
}

/** For a home that the server's account cannot reach. Random, so that a deleted home's old data is never taken for the new one's. */
function foreignDataDirectory(home: string): string {
  const digest = createHash('sha256').update(home).digest('hex').slice(0, 12);
  return join(SHARED_FOLDER, `${digest}-${randomBytes(4).toString('hex')}`, 'postgres');
}

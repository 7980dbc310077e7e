import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Pool } from 'pg';
import { openClient, openPool } from '../postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../postgres/embedded.ts';
import { madrugadaHome } from '../postgres/home.ts';
import { migrate } from '../postgres/migrate.ts';
import { NightProcess } from './night-process.ts';
import { loadRehearsalBatch } from './rehearsal-batch.ts';
import { type SimulatedProvider, startSimulatedProvider } from './simulated-provider.ts';
import { until } from './until.ts';

/** What a run asks for. */
export interface StageOptions {
  name: string;
  tasks: number;
  workers: number;
  /** The number of the question at which things go wrong. */
  crashAt: number;
  leaseSeconds: number;
  /** Flags of the simulated provider. */
  providerFlags: string[];
  /** Whether doubts are looked up at the provider: the window of a crash is there only without. */
  lookUp: boolean;
  /** Environment of the workers beyond what every night has. */
  environment: Record<string, string>;
  say: (line: string) => void;
}

/**
 * Where one run of the rehearsal happens: a server and a database of its own, a provider in another process with its own bill, a loaded
 * batch, and nights that can be killed.
 */
export class Stage {
  readonly options: StageOptions;
  /** Files of this run: bill, log, marks of failpoints. */
  readonly folder: string;
  readonly pool: Pool;
  readonly provider: SimulatedProvider;
  readonly batchKey: string;
  readonly #home: string;
  readonly #url: string;
  #night: NightProcess | undefined;
  #replayed = 0;

  private constructor(
    options: StageOptions,
    place: { home: string; folder: string; url: string; batchKey: string; provider: SimulatedProvider },
  ) {
    this.options = options;
    this.folder = place.folder;
    this.batchKey = place.batchKey;
    this.provider = place.provider;
    this.#home = place.home;
    this.#url = place.url;
    this.pool = openPool({ url: place.url, applicationName: 'madrugada/rehearsal', max: 2 });
  }

  /** Prepares a run: what an earlier rehearsal left of it is removed. */
  static async open(options: StageOptions): Promise<Stage> {
    const home = rehearsalHome();
    const folder = join(home, options.name);
    rmSync(folder, { recursive: true, force: true });
    const server = await startEmbedded(home);
    mkdirSync(folder, { recursive: true });
    const url = await createFreshDatabase(server.url, `rehearsal_${options.name.replaceAll('-', '_')}`);
    await migrate(url);
    const batchKey = await loadRehearsalBatch(url, options);
    const provider = await startSimulatedProvider(join(folder, 'bill.jsonl'), options.providerFlags);
    return new Stage(options, { home, folder, url, batchKey, provider });
  }

  get replayed(): number {
    return this.#replayed;
  }

  /** The key of the question at which things go wrong, or of one `offset` questions after it. */
  questionKey(offset = 0): string {
    const [id, version] = this.batchKey.split(':');
    return `${id}:${this.options.crashAt + offset}:${version}`;
  }

  /** A file that failpoints create or wait for. */
  mark(name: string): string {
    return join(this.folder, name);
  }

  /** Starts the night, or starts it again. `failpoints` act in its workers. */
  startNight(failpoints: string[] = []): void {
    this.#night = new NightProcess({
      batchKey: this.batchKey,
      workers: this.options.workers,
      log: join(this.folder, 'night.log'),
      environment: {
        ...process.env,
        ...this.options.environment,
        ...this.provider.environment,
        ...(!this.options.lookUp && { MADRUGADA_LOOK_UP: '' }),
        DATABASE_URL: this.#url,
        MADRUGADA_FAILPOINT: failpoints.join(','),
      },
    });
  }

  async finishNight(): Promise<void> {
    const result = await this.#night?.finished();
    this.#replayed += result?.replayed ?? 0;
    this.#night = undefined;
  }

  /** Waits for something to happen in the night; a night that ends before it does is an error. */
  during<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
    return until(what, async () => {
      const ended = this.#night?.hasEnded ?? true;
      const found = await look();
      if ((found === undefined || found === false) && ended) await this.#night?.finished();
      if ((found === undefined || found === false) && ended) throw new Error(`the night was over before ${what}`);
      return found;
    });
  }

  /** Pids of the night's worker processes that have not ended. */
  async workerPids(): Promise<number[]> {
    const { rows } = await this.pool.query<{ pid: number }>(
      'SELECT pid FROM madrugada.worker WHERE ended_at IS NULL ORDER BY id',
    );
    return rows.map(({ pid }) => pid);
  }

  /** Stops every process of the night with SIGSTOP, or lets it go on with SIGCONT. */
  async signalAll(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    if (signal === 'SIGSTOP') this.#night?.signal(signal); // first the supervisor, which would start workers again
    for (const pid of await this.workerPids()) process.kill(pid, signal);
    if (signal === 'SIGCONT') this.#night?.signal(signal);
  }

  /** Kills the supervisor and every worker with SIGKILL, and the database as if its machine had lost power; then starts the database. */
  async crashEverything(): Promise<void> {
    const pids = await this.workerPids();
    this.#night?.signal('SIGKILL');
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await stopEmbedded(this.#home, 'immediate');
    await this.#night?.gone();
    this.#night = undefined;
    await startEmbedded(this.#home);
  }

  /** Ends what still runs; the server stays for the next run. */
  async close(): Promise<void> {
    if (this.#night && !this.#night.hasEnded) {
      await this.signalAll('SIGCONT');
      this.#night.signal('SIGTERM');
      await this.#night.gone();
    }
    await this.provider.stop();
    await this.pool.end();
  }
}

/** Rehearsals have a server of their own: they crash it. */
export function rehearsalHome(): string {
  return join(madrugadaHome(), 'rehearsal');
}

/** Creates a database on this server, in place of an earlier one of that name; its URL. */
export async function createFreshDatabase(serverUrl: string, name: string): Promise<string> {
  const client = await openClient({ url: serverUrl, applicationName: 'madrugada/rehearsal' });
  try {
    await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    await client.query(`CREATE DATABASE ${name}`);
  } finally {
    await client.end();
  }
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

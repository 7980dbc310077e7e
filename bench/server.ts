import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openClient } from '../src/postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../src/postgres/embedded.ts';

/** A Postgres server of this measurement's own, as installed: `synchronous_commit` is on. */
export class Server {
  readonly #home: string;
  readonly #url: string;

  private constructor(home: string, url: string) {
    this.#home = home;
    this.#url = url;
  }

  static async start(): Promise<Server> {
    const home = mkdtempSync(join(tmpdir(), 'madrugada-bench-'));
    return new Server(home, (await startEmbedded(home)).url);
  }

  /** Creates an empty database; its URL. */
  async database(name: string): Promise<string> {
    const client = await openClient({ url: this.#url, applicationName: 'bench' });
    await client.query(`CREATE DATABASE ${name}`);
    await client.end();
    const url = new URL(this.#url);
    url.pathname = `/${name}`;
    return url.href;
  }

  async stop(): Promise<void> {
    await stopEmbedded(this.#home);
    rmSync(this.#home, { recursive: true });
  }
}

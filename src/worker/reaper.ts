import type { Pool } from 'pg';
import { proofOfDeath } from '../lease/process-identity.ts';
import { sweepLeases } from '../lease/reclaim.ts';
import { endWorker, livingWorkers } from '../lease/worker-row.ts';

/** Gives back what the dead, the silent and the stuck hold, money included. Each worker process runs one, about every second. */
export class Reaper {
  readonly #pool: Pool;
  readonly #ownId: number | undefined;
  #sweptUntil = '-infinity';

  constructor(pool: Pool, ownId?: number) {
    this.#pool = pool;
    this.#ownId = ownId;
  }

  /** One round. Returns how many tasks went back. */
  async reap(): Promise<number> {
    const buried = await this.#buryTheDead();
    const { released, sweptUntil } = await sweepLeases(this.#pool, this.#sweptUntil);
    this.#sweptUntil = sweptUntil;
    await this.#pool.query('SELECT madrugada.tend_budgets(), madrugada.tend_actions()');
    return buried + released;
  }

  /** Workers of this host whose processes are proven dead (rule R7). */
  async #buryTheDead(): Promise<number> {
    let buried = 0;
    for (const worker of await livingWorkers(this.#pool)) {
      const proof = worker.id === this.#ownId ? undefined : proofOfDeath(worker);
      if (proof && (await endWorker(this.#pool, worker.id, proof))) buried += 1;
    }
    return buried;
  }
}

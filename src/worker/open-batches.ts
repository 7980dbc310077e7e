import type { Pool } from 'pg';

/** A batch that workers may claim from, and the position of this process's last claim of a fresh task in it. */
export interface OpenBatch {
  batchKey: string;
  agent: string;
  after: number;
}

/** The batches whose tasks may be claimed, oldest first; one, when the worker serves a single night. */
export class OpenBatches {
  readonly #pool: Pool;
  readonly #only: string | undefined;
  #batches: OpenBatch[] = [];

  constructor(pool: Pool, only: string | undefined) {
    this.#pool = pool;
    this.#only = only;
  }

  get all(): readonly OpenBatch[] {
    return this.#batches;
  }

  async refresh(): Promise<void> {
    const { rows } = await this.#pool.query<{ batchKey: string; agent: string }>(
      `SELECT batch_key AS "batchKey", agent FROM madrugada.batch
        WHERE state = 'open' AND ($1::text IS NULL OR batch_key = $1) ORDER BY created_at, batch_key`,
      [this.#only ?? null],
    );
    const known = new Map(this.#batches.map((batch) => [batch.batchKey, batch]));
    this.#batches = rows.map((row) => known.get(row.batchKey) ?? { ...row, after: 0 });
  }
}

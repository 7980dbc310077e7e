import Big from 'big.js';
import type { IntentRow, OutcomeRow } from './rows.ts';

/** What one group of the journal says of the spending of a batch: dollars it settles, and all that the process then holds. */
export interface SpendingNote {
  batchKey: string;
  workerId: number;
  settledUsd: string;
  heldUsd: string;
}

/** What this process holds for dispatches under way, by batch; only of batches that may spend so much in ten minutes and no more. */
export class HeldByBatch {
  readonly #held = new Map<string, Big>();

  change(batchKey: string, usd: Big): void {
    this.#held.set(batchKey, (this.#held.get(batchKey) ?? new Big(0)).plus(usd));
  }

  /** The notes to be committed with these rows. */
  notesFor({ outcomes, intents }: { outcomes: OutcomeRow[]; intents: IntentRow[] }): SpendingNote[] {
    if (this.#held.size === 0) return [];
    const notes = new Map<string, SpendingNote>();
    for (const { lease } of [...outcomes, ...intents]) {
      const held = this.#held.get(lease.batchKey);
      if (held === undefined || notes.has(lease.batchKey)) continue;
      const settled = outcomes
        .filter((row) => row.lease.batchKey === lease.batchKey)
        .reduce((sum, { costUsd }) => sum.plus(costUsd ?? 0), new Big(0));
      notes.set(lease.batchKey, {
        batchKey: lease.batchKey,
        workerId: lease.workerId,
        settledUsd: settled.toFixed(),
        heldUsd: held.toFixed(),
      });
    }
    return [...notes.values()];
  }
}

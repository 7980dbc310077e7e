import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../postgres/package-root.ts';
import { runScript } from '../postgres/run-script.ts';
import type { Stage } from './stage.ts';

/** The result of one of the proof queries in `db/audit`. */
export interface Proof {
  file: string;
  columns: string[];
  rows: (string | null)[][];
}

/** Runs the proof queries on the database of a run, as psql would. */
export async function readProofs({ pool, batchKey }: Pick<Stage, 'pool' | 'batchKey'>): Promise<Proof[]> {
  const folder = join(packageRoot(), 'db', 'audit');
  const proofs: Proof[] = [];
  const client = await pool.connect();
  try {
    for (const file of readdirSync(folder).sort()) {
      const script = { name: file, text: readFileSync(join(folder, file), 'utf8') };
      await runScript(client, script, new Map([['batch', batchKey]]), {
        rows: (columns, rows) => proofs.push({ file, columns, rows }),
        line: () => undefined,
      });
    }
  } finally {
    client.release();
  }
  return proofs;
}

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClientBase } from 'pg';
import { packageRoot } from '../postgres/package-root.ts';
import { runScript } from '../postgres/run-script.ts';

/** The result of one of the proof queries in `db/audit`. */
export interface Proof {
  file: string;
  columns: string[];
  /** Each value as Postgres prints it. */
  rows: (string | null)[][];
}

/** Runs the proof queries for a batch, the very files that psql runs. */
export async function readProofs(client: ClientBase, batchKey: string): Promise<Proof[]> {
  const folder = join(packageRoot(), 'db', 'audit');
  const proofs: Proof[] = [];
  for (const file of readdirSync(folder).sort()) {
    const script = { name: file, text: readFileSync(join(folder, file), 'utf8') };
    await runScript(client, script, new Map([['batch', batchKey]]), {
      rows: (columns, rows) => proofs.push({ file, columns, rows }),
      line: () => undefined,
    });
  }
  return proofs;
}

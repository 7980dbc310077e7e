import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbedded, stopEmbedded } from '../../src/postgres/embedded.ts';
import { migrate } from '../../src/postgres/migrate.ts';

/** Runs `work` on a migrated database of an embedded server that exists for that long. For scripts; tests have one already. */
export async function withMigratedDatabase(work: (url: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'madrugada-scratch-'));
  await chmod(folder, 0o755); // else a server started by root has to live elsewhere, and would not be deleted with this folder
  const home = join(folder, 'home');
  try {
    const { url } = await startEmbedded(home);
    await migrate(url);
    await work(url);
  } finally {
    await stopEmbedded(home);
    await rm(folder, { recursive: true });
  }
}

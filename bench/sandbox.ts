import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { migrate } from '../src/postgres/migrate.ts';
import { startSimulatedProvider } from '../src/rehearsal/simulated-provider.ts';
import { printFigures } from './figure.ts';
import { measureQuestion } from './question-cpu.ts';
import { measureReplay } from './replay.ts';
import { documents, writeDocuments } from './sandbox-context.ts';
import { measureStart } from './sandbox-start.ts';
import { Server } from './server.ts';
import { measureMemory } from './slot-memory.ts';

const REPORTS = fileURLToPath(new URL('../examples/licences/reports', import.meta.url));

/** What the agent `recursive` and its sandbox cost beside the calls: time, CPU and memory, with the values that they are to stay below. */
export async function benchSandbox(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'madrugada-bench-sandbox-'));
  const server = await Server.start();
  try {
    const library = writeDocuments(folder, documents(39, 200_000));
    printFigures('sandbox', await measureStart());
    const provider = await startSimulatedProvider(join(folder, 'bill.jsonl'));
    try {
      const url = await migrated(server, 'question_bench');
      const own = { id: 'own', what: 'its own report of 4 KB', folder: REPORTS, named: true };
      printFigures('question of 25 calls', await measureQuestion(url, provider.url, own));
      const all = { id: 'all', what: '39 documents, 200 KB', folder: library, named: false };
      printFigures('question of 25 calls', await measureQuestion(url, provider.url, all));
    } finally {
      await provider.stop();
    }
    printFigures('replay', await measureReplay(await migrated(server, 'replay_bench'), library));
    printFigures('memory', await measureMemory(await migrated(server, 'memory_bench')));
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true });
  }
}

async function migrated(server: Server, name: string): Promise<string> {
  const url = await server.database(name);
  await migrate(url);
  return url;
}

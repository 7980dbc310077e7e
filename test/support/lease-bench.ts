import { afterAll, beforeAll } from 'vitest';
import { type TestWorker, TestWorkers } from './attempts.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';

/** What the tests of one file share that send nothing: a database, and a worker registered in it; more by `workers.add()`. */
export interface LeaseBench {
  db: TestDatabase;
  workers: TestWorkers;
  worker: TestWorker;
}

/** Sets up a bench for the calling test file and takes it down after the last test. Its fields are there once tests run. */
export function leaseBench(): LeaseBench {
  const bench = {} as LeaseBench;
  beforeAll(async () => {
    bench.db = await createTestDatabase();
    bench.workers = new TestWorkers(bench.db, 'http://127.0.0.1:9');
    bench.worker = await bench.workers.add();
  });
  afterAll(async () => {
    await bench.workers?.closeAll();
    await bench.db?.drop();
  });
  return bench;
}

import { expect, test } from 'vitest';
import { loadTestBatch, taskOf } from '../support/attempts.ts';
import { endingsOf } from '../support/audit.ts';
import { untilDone, workerBench } from '../support/worker-processes.ts';

const bench = workerBench();

test('an attempt that fails for a reason of the harness’s own is used up: the task does not run all night', async () => {
  await bench.db.pool.query('REVOKE SELECT ON madrugada.step_record FROM madrugada_worker'); // no journal can be read
  const batch = await loadTestBatch(bench.db);
  bench.processes.worker('host-a/1', batch);
  await untilDone(bench.db, batch);

  expect(await endingsOf(bench.db, batch)).toEqual(Array(3).fill('host-a/1 failed'));
  expect((await taskOf(bench.db, batch)).failure).toEqual({
    kind: 'harness',
    message: 'permission denied for table step_record',
  });
});

import { thisProcess } from '../../src/lease/process-identity.ts';
import { registerWorker } from '../../src/lease/worker-row.ts';
import { openClient } from '../../src/postgres/connect.ts';
import type { TestDatabase } from './database.ts';

/** Completes the tasks of a batch with these answers, in the order of its list, as if a worker had run them. */
export async function completeEvery(db: TestDatabase, batchKey: string, answers: readonly unknown[]): Promise<void> {
  const client = await openClient({ url: db.url, applicationName: 'madrugada test complete' });
  try {
    const worker = await registerWorker(client, thisProcess());
    await client.query(
      `UPDATE madrugada.task SET state = 'running', slot = 'test', worker_id = $2, lease_token = 1, lease_expires_at = now() + interval '1 hour'
        WHERE batch_key = $1`,
      [batchKey, worker],
    );
    await client.query(
      `UPDATE madrugada.task t SET state = 'completed', result = a.answer, completed_at = now(), slot = NULL, worker_id = NULL, lease_expires_at = NULL
         FROM unnest($2::jsonb[]) WITH ORDINALITY a (answer, position) WHERE t.batch_key = $1 AND t.position = a.position`,
      [batchKey, answers.map((answer) => JSON.stringify(answer))],
    );
  } finally {
    await client.end();
  }
}

import type { ClientBase } from 'pg';
import { type Group, intentKey, outcomeKey, stepKey, type Written } from './write-group.ts';

/**
 * After a commit that was not seen: which rows of a repeated group are in the journal after all, as written by this very lease. The repeated
 * INSERT has waited for the old backend where that was still committing; a SELECT alone would have seen nothing (rule R8).
 */
export async function findWritten(client: ClientBase, group: Group, written: Written): Promise<Written> {
  const found: Written = {
    steps: new Map(written.steps),
    outcomes: new Map(written.outcomes),
    intents: new Set(written.intents),
  };
  for (const row of group.intents.filter((row) => !found.intents.has(intentKey(row)))) {
    const { rowCount } = await client.query(
      `SELECT FROM madrugada.call_intent
        WHERE batch_key = $1 AND task_id = $2 AND seq = $3 AND dispatch = $4 AND worker_id = $5 AND lease_token = $6 AND tag = $7 AND request_sha256 = $8`,
      [
        row.lease.batchKey,
        row.lease.taskId,
        row.seq,
        row.dispatch,
        row.lease.workerId,
        row.lease.token,
        row.tag,
        row.requestSha256,
      ],
    );
    if (rowCount === 1) found.intents.add(intentKey(row));
  }
  for (const row of group.outcomes.filter((row) => !found.outcomes.has(outcomeKey(row)))) {
    const { rows } = await client.query<{ completed_no: number; answers: boolean }>(
      `SELECT completed_no, answers FROM madrugada.call_outcome
        WHERE batch_key = $1 AND task_id = $2 AND seq = $3 AND dispatch = $4 AND kind = $5`,
      [row.lease.batchKey, row.lease.taskId, row.seq, row.dispatch, row.kind],
    );
    if (rows[0]) found.outcomes.set(outcomeKey(row), { completedNo: rows[0].completed_no, answers: rows[0].answers });
  }
  for (const row of group.steps.filter((row) => !found.steps.has(stepKey(row)))) {
    const { rows } = await client.query<{ completed_no: number }>(
      `SELECT completed_no FROM madrugada.step_record
        WHERE batch_key = $1 AND task_id = $2 AND scope = $3 AND kind = $4 AND name = $5 AND occurrence = $6 AND attempt = $7 AND worker_id = $8`,
      [
        row.lease.batchKey,
        row.lease.taskId,
        row.scope,
        row.kind,
        row.name,
        row.occurrence,
        row.lease.token,
        row.lease.workerId,
      ],
    );
    if (rows[0]) found.steps.set(stepKey(row), rows[0].completed_no);
  }
  return found;
}

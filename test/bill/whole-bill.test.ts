import { expect, test } from 'vitest';
import { loadTestBatch } from '../support/attempts.ts';
import { leaseBench } from '../support/lease-bench.ts';

const bench = leaseBench();
const CALLS = 1500;
const PROOFS = ['duplicate_charges', 'batch_totals', 'task_charges', 'unmatched', 'in_doubt', 'exposure'];

/** A night that has just ended: 25 calls of each task, all charged and billed, and no statistics of the tables yet. */
async function freshNight(): Promise<string> {
  const batch = await loadTestBatch(bench.db, { tasks: CALLS / 25 });
  await bench.db.pool.query(`
    ALTER TABLE madrugada.call_intent_1 SET (autovacuum_enabled = off);
    ALTER TABLE madrugada.call_outcome_1 SET (autovacuum_enabled = off);
    ALTER TABLE madrugada.bill_line SET (autovacuum_enabled = off);
    ALTER TABLE madrugada.call_intent_1 DISABLE TRIGGER intent_fence`);
  await bench.db.pool.query(
    `INSERT INTO madrugada.call_intent (batch_key, task_id, seq, dispatch, scope, request_sha256, occurrence, attempt, worker_id, slot, lease_token,
       after_no, method, path, request, tag, deadline_at)
     SELECT $1, t.id, n, 1, '', sha256(''), n, 1, $2, 'slot', 1, 0, 'POST', '/v1/messages', '', 'tag ' || t.id || '/' || n, madrugada.now()
       FROM madrugada.task t, generate_series(1, 25) n WHERE t.batch_key = $1`,
    [batch, bench.worker.id],
  );
  await bench.db.pool.query(
    `INSERT INTO madrugada.call_outcome (batch_key, task_id, seq, dispatch, kind, cost_usd, provider_request_id, answers)
     SELECT $1, t.id, n, 1, 'charged', 0.01, 'req ' || t.id || '/' || n, true
       FROM madrugada.task t, generate_series(1, 25) n WHERE t.batch_key = $1`,
    [batch],
  );
  await bench.db.pool.query(
    `WITH b AS (
       INSERT INTO madrugada.bill (batch_key, source, format, sha256, byte_count, line_count) VALUES ($1, 'hand', 'hand', '1', 1, $2) RETURNING id)
     INSERT INTO madrugada.bill_line (bill_id, line_no, tag, provider_request_id, cost_usd, raw)
     SELECT b.id, row_number() OVER (), 'tag ' || t.id || '/' || n, 'req ' || t.id || '/' || n, 0.01, ''
       FROM b, madrugada.task t, generate_series(1, 25) n WHERE t.batch_key = $1`,
    [batch, CALLS],
  );
  return batch;
}

interface PlanNode {
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Join Filter'?: number;
  Plans?: PlanNode[];
}

/** Rows that a plan has looked at, over all its nodes. */
function rowsRead(node: PlanNode): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Join Filter'] ?? 0);
  const own = (node['Actual Rows'] + removed) * node['Actual Loops'];
  return (node.Plans ?? []).reduce((sum, child) => sum + rowsRead(child), own);
}

test('the proofs of a whole night do not look at every call for every call, not even before the tables have statistics', async () => {
  const batch = await freshNight();
  for (const proof of PROOFS) {
    const { rows } = await bench.db.pool.query<{ 'QUERY PLAN': { Plan: PlanNode }[] }>(
      `EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM madrugada.audit_${proof} WHERE batch_key = '${batch}'`,
    );
    const plan = rows[0]?.['QUERY PLAN'][0]?.Plan;
    // joined row by row, it would be one time for every other call; once for every task is bearable
    expect(plan && rowsRead(plan) / CALLS, proof).toBeLessThan(CALLS / 5);
  }
});

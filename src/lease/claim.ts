import type { Pool } from 'pg';

/** A task as its slot holds it. */
export interface ClaimedTask {
  taskId: number;
  /** `batch:item:version` */
  key: string;
  item: string;
  position: number;
  input: unknown;
  leaseToken: number;
  firstClaimedAt: Date;
  agent: string;
  agentOptions: Record<string, unknown>;
  /** Digest of the agent that the last attempt ran; null: this is the first. */
  previousAgentSha256: string | null;
}

/**
 * Claims the next task of a batch for a slot: one statement, `FOR UPDATE SKIP LOCKED` (N4). `after` is the position of the process's last
 * claim of a fresh task, 0 at first. Undefined: there is nothing to claim now. A claim whose commit was not seen is not repeated here: the
 * caller releases it before its next one (releaseUnknownClaims).
 */
export async function claimTask(
  pool: Pool,
  request: { batchKey: string; slot: string; workerId: number; agentSha256: string; after: number },
): Promise<ClaimedTask | undefined> {
  const { rows } = await pool.query({
    name: 'claim',
    text: `SELECT task_id AS "taskId", key, item, position, input, lease_token AS "leaseToken", first_claimed_at AS "firstClaimedAt", agent,
                  agent_options AS "agentOptions", previous_agent_sha256 AS "previousAgentSha256"
             FROM madrugada.claim_task($1, $2, $3, $4, $5)`,
    values: [request.batchKey, request.slot, request.workerId, request.agentSha256, request.after],
  });
  return rows[0];
}

/** When the next task given back becomes claimable by time alone; undefined: none will. */
export async function nextClaimableAt(pool: Pool, batchKey: string): Promise<Date | undefined> {
  const { rows } = await pool.query<{ at: Date | null }>('SELECT madrugada.next_claimable_at($1) AS at', [batchKey]);
  return rows[0]?.at ?? undefined;
}

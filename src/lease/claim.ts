import Big from 'big.js';
import type { Pool } from 'pg';

/** What an attempt may spend, in dollars. */
export interface Funds {
  /** What it has drawn from batch and month so far; undefined: no limit is in force. */
  allowance: Big | undefined;
  /** What earlier attempts of the task have spent, and what their dispatches in doubt still hold. */
  committed: Big;
  /** What the whole task may spend; undefined: no limit. */
  taskBudget: Big | undefined;
  /** Its batch may spend only so much in ten minutes, so each minute's spending is written down. */
  countsVelocity: boolean;
  /** What a call may ask for; more is lowered to it before it is sent. Undefined: no limit. */
  maxOutputTokens: number | undefined;
  /** Undefined: every call asks its own model, whatever it is refused. */
  fallBack: FallBackSetting | undefined;
}

/** The model that a call asks in the stead of its own once it was refused so often. */
export interface FallBackSetting {
  model: string;
  after: number;
}

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
  funds: Funds;
  /** Its failure is decided; this attempt only undoes what its actions have done, and then it fails. Null: an ordinary attempt. */
  undoing: { kind: string; message: string } | null;
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
  const { rows } = await pool.query<ClaimRow>({
    name: 'claim',
    text: `SELECT task_id AS "taskId", key, item, position, input, lease_token AS "leaseToken", first_claimed_at AS "firstClaimedAt", agent,
                  agent_options AS "agentOptions", previous_agent_sha256 AS "previousAgentSha256", allowance_usd, committed_usd, task_budget_usd, counts_velocity,
                  max_output_tokens, fall_back_model, fall_back_after, undoing
             FROM madrugada.claim_task($1, $2, $3, $4, $5)`,
    values: [request.batchKey, request.slot, request.workerId, request.agentSha256, request.after],
  });
  const [row] = rows;
  if (row === undefined) return undefined;
  const { allowance_usd, committed_usd, task_budget_usd, counts_velocity, max_output_tokens, ...others } = row;
  const { fall_back_model: model, fall_back_after: after, ...task } = others;
  const funds = {
    allowance: dollars(allowance_usd),
    committed: new Big(committed_usd),
    taskBudget: dollars(task_budget_usd),
    countsVelocity: counts_velocity,
    maxOutputTokens: max_output_tokens ?? undefined,
    fallBack: model === null || after === null ? undefined : { model, after },
  };
  return { ...task, funds };
}

type ClaimRow = Omit<ClaimedTask, 'funds'> & {
  allowance_usd: string | null;
  committed_usd: string;
  task_budget_usd: string | null;
  counts_velocity: boolean;
  max_output_tokens: number | null;
  fall_back_model: string | null;
  fall_back_after: number | null;
};

function dollars(numeric: string | null): Big | undefined {
  return numeric === null ? undefined : new Big(numeric);
}

/** When the next task given back becomes claimable by time alone; undefined: none will. */
export async function nextClaimableAt(pool: Pool, batchKey: string): Promise<Date | undefined> {
  const { rows } = await pool.query<{ at: Date | null }>('SELECT madrugada.next_claimable_at($1) AS at', [batchKey]);
  return rows[0]?.at ?? undefined;
}

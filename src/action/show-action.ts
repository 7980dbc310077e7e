import type { Queryable } from '../batch/queryable.ts';
import { MadrugadaError } from '../errors.ts';
import type { ActionState } from './action-row.ts';
import type { Approval } from './define-action.ts';
import { taskKeyOf } from './list-actions.ts';

/** Everything that a person decides on. JSON comes as text, so that no digit of a number is lost. */
export type ShownAction = {
  readonly id: number;
  readonly batchKey: string;
  readonly task: string;
  readonly name: string;
  readonly kind: string;
  readonly intent: string;
  readonly state: ActionState;
  readonly why: string | null;
  readonly argumentsJson: string;
  /** What the target showed when it was proposed. */
  readonly presentJson: string | null;
  readonly proposedBy: string;
  readonly proposedAt: Date;
  readonly attempt: number;
  readonly agent: string;
  readonly agentSha256: string;
  /** The calls (seq) whose answers the code had seen. */
  readonly lineage: readonly number[];
  readonly permissions: readonly string[];
  readonly blastRadius: string;
  readonly rollbackKind: 'in-band' | 'compensating' | 'out-of-band' | 'none';
  readonly rollbackPlan: string;
  readonly approval: Approval;
  readonly challenge: string;
  readonly expiresAt: Date;
  readonly secondsLeft: number;
  readonly onExpiry: 'reject' | 'fail';
  readonly generation: number;
  readonly key: string;
  readonly digest: string;
  /** The row is as its digest says; false: somebody has changed it past the guard. */
  readonly isIntact: boolean;
  readonly executions: number;
  readonly undos: number;
  readonly effectJson: string | null;
  readonly evidenceJson: string | null;
  readonly evidenceIsWeak: boolean;
  readonly endedAt: Date | null;
  readonly decisions: readonly ShownDecision[];
  readonly history: readonly Passage[];
};

export type ShownDecision = {
  readonly by: string;
  readonly verdict: 'approve' | 'reject';
  readonly at: Date;
  readonly reason: string | null;
  readonly checklist: readonly string[];
};

/** A row of the audit trail. */
export type Passage = {
  readonly at: Date;
  readonly event: string;
  readonly actor: string;
  readonly osUser: string | null;
  readonly sessionUser: string;
  readonly reason: string | null;
};

const SHOW = `
  SELECT a.id, a.batch_key AS "batchKey", ${taskKeyOf('a')} AS task, a.name, a.kind, a.intent, a.state, a.why,
         jsonb_pretty(a.arguments) AS "argumentsJson", a.present::text AS "presentJson", a.proposed_by AS "proposedBy", a.proposed_at AS "proposedAt",
         a.attempt, a.agent, a.agent_sha256 AS "agentSha256", a.lineage, a.permissions, a.blast_radius AS "blastRadius",
         a.rollback_kind AS "rollbackKind", a.rollback_plan AS "rollbackPlan", a.approval, madrugada.action_challenge(a) AS challenge,
         a.expires_at AS "expiresAt", extract(epoch FROM a.expires_at - madrugada.now())::float8 AS "secondsLeft", a.on_expiry AS "onExpiry",
         a.generation, a.key, a.digest, madrugada.action_digest(a) = a.digest AS "isIntact", a.execution AS executions, a.undo AS undos,
         jsonb_pretty(a.effect) AS "effectJson", jsonb_pretty(a.evidence) AS "evidenceJson", a.evidence_is_weak AS "evidenceIsWeak",
         a.ended_at AS "endedAt"
    FROM madrugada.action a WHERE a.id = $1`;

const DECISIONS = `
  SELECT by_name AS by, verdict, decided_at AS at, reason, checklist
    FROM madrugada.action_decision WHERE action_id = $1 ORDER BY decided_at`;

/** By index audit_event_action. */
const HISTORY = `
  SELECT at, event, actor, os_user AS "osUser", session_user_name AS "sessionUser", reason
    FROM madrugada.audit_action_passages WHERE action_id = $1 ORDER BY event_id`;

/** Reads an action with who decided and what happened. Throws a MadrugadaError when there is none of this number. */
export async function showAction(db: Queryable, id: number): Promise<ShownAction> {
  const { rows } = await db.query<Omit<ShownAction, 'decisions' | 'history'>>(SHOW, [id]);
  const [action] = rows;
  if (action === undefined)
    throw new MadrugadaError(`there is no action ${id}; madrugada action list shows those there are`);
  const { rows: decisions } = await db.query<ShownDecision>(DECISIONS, [id]);
  const { rows: history } = await db.query<Passage>(HISTORY, [id]);
  return { ...action, decisions, history };
}

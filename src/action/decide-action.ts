import type { ClientBase } from 'pg';
import { asPerson, type Said } from '../batch/as-person.ts';
import { MadrugadaError } from '../errors.ts';

/** The points a person checks before approving; all of them where the action cannot be undone. */
export const CHECKLIST = ['resource', 'blast-radius', 'rollback'] as const;
export type ChecklistPoint = (typeof CHECKLIST)[number];

/** A person's decision on what was shown to them. */
export interface Decision {
  id: number;
  /** The digest that was shown: what the decision is bound to (A3). */
  digest: string;
  verdict: 'approve' | 'reject';
  challenge?: string | undefined;
  checklist?: readonly ChecklistPoint[];
}

/** `waiting`: for a second person; `already`: it was decided before, and nothing has changed. */
export interface Decided {
  outcome: 'approved' | 'rejected' | 'waiting' | 'already';
  message: string | undefined;
}

/**
 * Approves or rejects a proposal. `client` is a connection of the role approver. A decision that does not count is put on record, too, and then
 * thrown as a MadrugadaError that says why.
 */
export async function decideAction(client: ClientBase, decision: Decision, said: Said): Promise<Decided> {
  const { outcome, message } = await asPerson(client, said, async () => {
    const { rows } = await client.query<{ outcome: Decided['outcome'] | 'refused'; message: string | null }>(
      'SELECT outcome, message FROM madrugada.decide_action($1, $2, $3, $4, $5)',
      [decision.id, decision.digest, decision.verdict, decision.challenge ?? null, decision.checklist ?? []],
    );
    const [row] = rows;
    if (row === undefined) throw new Error('the database decided nothing');
    return row;
  });
  if (outcome === 'refused') throw new MadrugadaError(`action ${decision.id}: not ${verb(decision)}: ${message}`);
  return { outcome, message: message ?? undefined };
}

function verb({ verdict }: Decision): string {
  return verdict === 'approve' ? 'approved' : 'rejected';
}

/** A person has looked at the target, and says how the action stands. Throws when it does not wait for that. */
export async function settleAction(
  client: ClientBase,
  id: number,
  state: 'committed' | 'aborted' | 'rolled_back',
  said: { by: string; reason: string },
): Promise<void> {
  const problem = await asPerson(client, said, async () => {
    const { rows } = await client.query<{ problem: string | null }>(
      'SELECT madrugada.settle_action($1, $2) AS problem',
      [id, state],
    );
    return rows[0]?.problem;
  });
  if (problem) throw new MadrugadaError(problem);
}

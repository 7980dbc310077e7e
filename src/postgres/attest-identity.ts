import type { ClientBase } from 'pg';
import { type Finding, fail, ok } from './finding.ts';

/** Is this the server that was confirmed last, or a restored copy, or a standby that was promoted (rule R15)? Changes nothing. */
export async function attestIdentity(client: ClientBase): Promise<Finding> {
  const check = 'server identity';
  const { rows } = await client.query<{ known: boolean; system: string; timeline: number }>(
    `SELECT madrugada.server_is_known() AS known, s.system_identifier::text AS system, c.timeline_id AS timeline
       FROM pg_control_system() s, pg_control_checkpoint() c`,
  );
  const { known, system, timeline } = rows[0] ?? { known: false, system: 'unknown', timeline: 0 };
  const seen = `system ${system}, timeline ${timeline}`;
  return known
    ? ok(check, `${seen}: the one it was`)
    : fail(
        check,
        `${seen}: not the server it was; a restored backup or a failover may have lost the last records`,
        'compare the bill first (runbook, "restored database"), then: madrugada resume --by WHO --reason TEXT',
      );
}

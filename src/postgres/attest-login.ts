import type { ClientBase } from 'pg';
import { type Finding, ok, warn } from './finding.ts';

/**
 * What may whoever has the URL do, an agent's code in a worker for instance? A worker's role binds the worker's own connections; a login that
 * is more can take it off.
 */
export async function attestLogin(client: ClientBase): Promise<Finding> {
  const check = 'login';
  const { rows } = await client.query<{ name: string; superuser: boolean; owner: boolean }>(
    `SELECT rolname AS name, rolsuper AS superuser,
            coalesce(pg_has_role(oid, to_regrole('madrugada_owner'), 'MEMBER'), false) AS owner
       FROM pg_roles WHERE rolname = session_user`,
  );
  const { name, superuser, owner } = rows[0] ?? { name: 'unknown', superuser: false, owner: false };
  if (!superuser && !owner) return ok(check, `${name} may be what the roles of the program are, and no more`);
  return warn(
    check,
    `${name} is ${superuser ? 'a superuser' : 'a member of the schema’s owner'}: an agent’s code that reads its URL may rewrite history`,
    'give the workers a login of their own: CREATE ROLE night LOGIN PASSWORD … IN ROLE madrugada_worker, madrugada_operator, madrugada_auditor; DATABASE_URL with it for run and worker, the present one for init',
  );
}

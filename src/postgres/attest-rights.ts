import type { Client } from 'pg';
import { goldenSchema } from './attest-schema.ts';
import { type Finding, fail, ok, warn } from './finding.ts';
import { GRANTS_TITLE, readSchema, sectionOf } from './schema-dump.ts';

const ROLES = ['madrugada_worker', 'madrugada_operator', 'madrugada_approver', 'madrugada_auditor'];
const WRITES = ['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER', 'REFERENCES'];
const NAMED = 10;

/** One right of one role on one object, such as `INSERT on TABLE madrugada.call_intent for madrugada_worker`. */
type Right = string;

/**
 * May each role do what it is meant to do and nothing else (rule R14)? Compared are the rights granted with `golden`, by default the dump that
 * ships with this version; and what a role can write in effect, by whatever way (membership, a partition's own rights), with what it is
 * granted there. Changes the session's search_path.
 */
export async function attestRights(client: Client, golden: string = goldenSchema()): Promise<Finding[]> {
  const meant = rightsOf(sectionOf(golden, GRANTS_TITLE));
  const section = (await readSchema(client)).find(({ title }) => title === GRANTS_TITLE);
  const held = rightsOf(section?.entries.join('\n') ?? '');
  const beyond = [...held].filter((right) => !meant.has(right));
  return [
    granted(
      beyond.filter((right) => isOurs(right)),
      [...meant].filter((right) => !held.has(right)),
    ),
    await inEffect(client, meant),
    strangers(beyond.filter((right) => !isOurs(right))),
  ];
}

function granted(surplus: Right[], missing: Right[]): Finding {
  const check = 'rights granted';
  if (surplus.length + missing.length === 0) return ok(check, 'as designed');
  const seen = [
    ...(surplus.length > 0 ? [`too much: ${list(surplus)}`] : []),
    ...(missing.length > 0 ? [`missing: ${list(missing)}`] : []),
  ].join('; ');
  return fail(check, seen, 'as the schema’s owner: REVOKE what is too much, GRANT what is missing');
}

/** Also without a grant that the schema shows: as a superuser, a member of the owner's role, or on a single partition. */
async function inEffect(client: Client, meant: Set<Right>): Promise<Finding> {
  const check = 'rights in effect';
  const { rows } = await client.query<{ role: string; privilege: string; name: string }>(
    `SELECT role, privilege, c.relname AS name
       FROM unnest($1::text[]) role, unnest($2::text[]) privilege, pg_class c
      WHERE c.relnamespace = 'madrugada'::regnamespace AND c.relkind IN ('r', 'p', 'v')
        AND (has_table_privilege(role, c.oid, privilege)
             OR privilege IN ('INSERT', 'UPDATE') AND has_any_column_privilege(role, c.oid, privilege))
      ORDER BY 1, 3, 2`,
    [ROLES, WRITES],
  );
  const surplus = rows
    .map(({ role, privilege, name }) => `${privilege} on TABLE madrugada.${name} for ${role}`)
    .filter((right) => !meant.has(right) && !isColumnRight(right, meant));
  if (surplus.length === 0)
    return ok(check, 'a worker inserts into the journal and writes nothing else; nobody rewrites an audit row');
  return fail(
    check,
    `too much: ${list(surplus)}`,
    'find out why: \\du and \\dp in madrugada db psql; REVOKE the grant or the membership',
  );
}

/** Where a role may write some columns only, the table shows it as well. */
function isColumnRight(right: Right, meant: Set<Right>): boolean {
  const [, privilege, table, role] = /^(\w+) on TABLE (\S+) for (\w+)$/.exec(right) ?? [];
  return [...meant].some((one) => one.startsWith(`${privilege} on COLUMN ${table}.`) && one.endsWith(` for ${role}`));
}

function strangers(rights: Right[]): Finding {
  const check = 'other roles';
  const writes = rights.filter((right) => WRITES.some((privilege) => right.startsWith(`${privilege} `)));
  if (writes.length > 0)
    return warn(
      check,
      `may write: ${list(writes)}`,
      'REVOKE it, unless you know what for: whoever has it can change history',
    );
  return ok(check, rights.length === 0 ? 'none has a right in the schema' : `read only: ${list(rights)}`);
}

function isOurs(right: Right): boolean {
  return [...ROLES, 'PUBLIC'].some((role) => right.endsWith(` for ${role}`));
}

/** `GRANT a, b ON OBJECT TO r, s;` is four rights. */
function rightsOf(text: string): Set<Right> {
  const rights = new Set<Right>();
  for (const line of text.split('\n')) {
    const [, privileges, object, grantees] = /^GRANT (.+?) ON (.+) TO (.+);$/.exec(line) ?? [];
    for (const privilege of privileges?.split(', ') ?? [])
      for (const grantee of grantees?.split(', ') ?? []) rights.add(`${privilege} on ${object} for ${grantee}`);
  }
  return rights;
}

function list(rights: Right[]): string {
  const more = rights.length > NAMED ? ` and ${rights.length - NAMED} more` : '';
  return rights.slice(0, NAMED).join(', ') + more;
}

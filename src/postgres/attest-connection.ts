import { setTimeout as delay } from 'node:timers/promises';
import { type Client, DatabaseError } from 'pg';
import { type DatabaseRole, openClient } from './connect.ts';
import { type Finding, fail, ok } from './finding.ts';

const CHECK = 'direct connection';
const NEXT =
  'set DATABASE_URL to the server itself, or to a pooler in session mode: slot locks, LISTEN and roles need a session of their own';
/** Only a pooler that has no second session makes one connection wait for another. */
const WAIT_MS = 15_000;
/** Any number: looked at and let go at once. */
const LOCK_KEY = 1_870_101_322;
/** What the commands run as. Not as an approver: whoever approves has a login of their own. */
const ROLES = ['worker', 'operator', 'auditor'] as const;

/** Is a connection a session of its own, with its locks (rule R12)? A transaction pooler is named. */
export async function attestSession(url: string): Promise<Finding> {
  const connect = () => openClient({ url, applicationName: 'madrugada doctor', queryTimeoutMs: WAIT_MS });
  const [one, other] = [await connect(), await connect()];
  try {
    return await compare(one, other);
  } finally {
    await Promise.all([release(one), release(other)]);
  }
}

async function compare(one: Client, other: Client): Promise<Finding> {
  const first = await pidOf(one);
  await other.query('BEGIN'); // keeps a pooler's session, if there is one, from the first
  const others = await pidOf(other);
  const again = await Promise.race([pidOf(one), delay(WAIT_MS - 1_000, undefined, { ref: false })]);
  if (again === undefined) return fail(CHECK, 'a pooler lets one connection wait for another', NEXT);
  if (again !== first || others === first)
    return fail(
      CHECK,
      'a transaction pooler changes the session between two statements: slot locks mean nothing',
      NEXT,
    );
  await other.query('COMMIT');
  const locked = await tryLock(one);
  const twice = await tryLock(other);
  await one.query('SELECT pg_advisory_unlock($1)', [LOCK_KEY]);
  if (!locked || twice) return fail(CHECK, 'a session lock of one connection does not hold against another', NEXT);
  return ok(CHECK, 'each connection is a session of its own, and its locks hold against the others');
}

async function pidOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  return rows[0]?.pid ?? 0;
}

async function tryLock(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ locked: boolean }>('SELECT pg_try_advisory_lock($1) AS locked', [LOCK_KEY]);
  return rows[0]?.locked === true;
}

/** A statement that still waits in a pooler would keep `end` waiting. */
async function release(client: Client): Promise<void> {
  await Promise.race([client.end(), delay(1_000, undefined, { ref: false })]);
}

/** Do connections run under the roles they ask for? A pooler may drop what a connection says at its start. */
export async function attestRoles(url: string): Promise<Finding> {
  const check = 'roles of connections';
  for (const role of ROLES) {
    const name = `madrugada_${role}`;
    const seen = await roleOf(url, role);
    if (seen === 'missing') return fail(check, `there is no role ${name}`, 'madrugada init');
    if (seen === 'refused')
      return fail(
        check,
        `the login may not be ${name}`,
        `as an administrator: GRANT ${name} TO the login of DATABASE_URL, and so for each of ${ROLES.join(', ')}`,
      );
    if (seen !== name)
      return fail(
        check,
        `a connection that asks for the role ${name} runs as ${seen}: what it asks for is dropped on the way`,
        NEXT,
      );
  }
  return ok(check, 'worker, operator and auditor are what they ask for');
}

/** The role that a connection gets which asks for `role`, `refused` to this login, or `missing` on the server. */
async function roleOf(url: string, role: DatabaseRole): Promise<string> {
  try {
    const client = await openClient({ url, as: role, applicationName: 'madrugada doctor' });
    const { rows } = await client.query<{ role: string }>('SELECT current_user AS role');
    await client.end();
    return rows[0]?.role ?? '';
  } catch (error) {
    if (error instanceof DatabaseError && error.code === '42501') return 'refused';
    if (error instanceof DatabaseError && error.code === '22023') return 'missing';
    throw error;
  }
}

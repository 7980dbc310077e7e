import { DatabaseError } from 'pg';
import { MadrugadaError } from '../errors.ts';

const UNREACHABLE = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EPIPE',
]);
/** A server may hang up while we connect, or later. */
const SOCKET_CALLS = new Set(['connect', 'getaddrinfo', 'read', 'write']);
const TIMED_OUT = /timeout exceeded when trying to connect|Query read timeout|Connection terminated|timeout expired/;

/** What the server says when it is there but cannot serve us; by SQLSTATE. */
const REFUSALS: Record<string, string> = {
  '28P01': 'the database refused the password; check DATABASE_URL',
  '28000': 'the database refused this user; check DATABASE_URL',
  '3D000': 'the database named in DATABASE_URL does not exist; create it',
  '53300': 'the database has no free connection; raise max_connections or run fewer workers',
  '57P01': 'the database is shutting down; try again when it is back',
  '57P02': 'the database crashed and is recovering; try again in a moment',
  '57P03': 'the database is starting up; try again in a moment',
};

/** By SQLSTATE: the schema is not there. 22023 comes from the role that a connection asks for at its start. */
const NOT_MIGRATED = new Set(['42P01', '42883', '3F000']);

/**
 * An operator's explanation of an error that came from the database connection, or undefined if it is none of those that an operator
 * can do something about. Never contains the URL or its password.
 */
export function explainDatabaseError(error: unknown): MadrugadaError | undefined {
  if (error instanceof AggregateError) return explainDatabaseError(error.errors[0]); // a host with several addresses
  if (!(error instanceof Error)) return undefined;
  if (error instanceof DatabaseError) return explainRefusal(error);
  const code = 'code' in error ? String(error.code) : '';
  const isSocket = 'syscall' in error && SOCKET_CALLS.has(String(error.syscall));
  if ((UNREACHABLE.has(code) && isSocket) || TIMED_OUT.test(error.message))
    return new MadrugadaError(
      `the database cannot be reached (${error.message}); is it running, and does DATABASE_URL point at it?`,
      3,
      { cause: error },
    );
  return undefined;
}

function explainRefusal(error: DatabaseError): MadrugadaError | undefined {
  const { code = '', message } = error;
  const refusal = REFUSALS[code];
  if (refusal !== undefined) return new MadrugadaError(`${refusal} (${message})`, 3, { cause: error });
  if (code === '08P01' && message.includes('startup parameter'))
    return new MadrugadaError(
      `what answers at DATABASE_URL does not take our session settings (${message}): it is a pooler such as PgBouncer; set DATABASE_URL to the server itself`,
      3,
      { cause: error },
    );
  const [, role] = /^permission denied to set role "(madrugada_\w+)"/.exec(message) ?? [];
  if (role !== undefined)
    return new MadrugadaError(
      `the user of DATABASE_URL may not work as ${role}; whoever runs the database can allow it: GRANT ${role} TO the user`,
      2,
      { cause: error },
    );
  if (NOT_MIGRATED.has(code) || (code === '22023' && message.includes('"role"')))
    return new MadrugadaError(`the database lacks this version's schema (${message}); run: madrugada init`, 2, {
      cause: error,
    });
  return undefined;
}

import { DatabaseError } from 'pg';

/** SQLSTATE classes by which a server says that it is going away, or that it is not there yet. */
const GOING_AWAY = /^(08|57P|53300)/;

/**
 * True when an error means that the connection was lost, or not yet had: whether a statement under way was committed is then not known, and
 * asking again later makes sense. False for what the server answered, and for our own defects.
 */
export function isConnectionLoss(error: unknown): boolean {
  if (error instanceof DatabaseError) return GOING_AWAY.test(error.code ?? '');
  return (
    error instanceof Error &&
    !(error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError)
  );
}

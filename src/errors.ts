/** What the process exits with when an error reaches the command line (DESIGN: 1 look, 2 input, 3 unreachable, 130 interrupted). */
export type ExitCode = 1 | 2 | 3 | 130;

/**
 * An error whose message is meant for an operator: what happened, to which task, line or file, and what to do next.
 * Anything else that reaches the command line is a defect and is printed as one.
 */
export class MadrugadaError extends Error {
  override readonly name = 'MadrugadaError';
  readonly exitCode: ExitCode;

  constructor(message: string, exitCode: ExitCode = 2, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** The message of whatever was thrown; a thrown non-error is shown as it prints. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

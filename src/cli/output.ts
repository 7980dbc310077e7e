/** Options that every command has; the main program adds them. */
export interface CommonFlags {
  json?: boolean;
  debug?: boolean;
}

let documentPrinted = false;

/** The command's result: with `--json` the one JSON document on stdout, else `text` for a person. Call it once. */
export function printResult(flags: CommonFlags, document: unknown, text: string): void {
  documentPrinted ||= flags.json === true;
  process.stdout.write(flags.json === true ? `${JSON.stringify(document)}\n` : `${text}\n`);
}

/** News while the command works, on stderr so that stdout holds the result alone. */
export function printProgress(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** An error: the message on stderr and, with `--json` and no document printed yet, `{"error":{"message","exit_code"}}` on stdout. */
export function printError(flags: CommonFlags, message: string, exitCode: number): void {
  process.stderr.write(`madrugada: ${message}\n`);
  if (flags.json === true && !documentPrinted) printResult(flags, { error: { message, exit_code: exitCode } }, '');
}

/** Rows as text in aligned columns under `headings`; columns of numbers are right-aligned. */
export function formatTable(headings: string[], rows: (string | number)[][]): string {
  const columns = headings.map((heading, index) => {
    const cells = rows.map((row) => String(row[index] ?? ''));
    const isNumeric = cells.length > 0 && cells.every((cell) => /^-?[\d.,]*$/.test(cell));
    const width = Math.max(heading.length, ...cells.map((cell) => cell.length));
    return [heading, ...cells].map((cell) => (isNumeric ? cell.padStart(width) : cell.padEnd(width)));
  });
  return [headings, ...rows]
    .map((_, line) =>
      columns
        .map((column) => column[line])
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** The same object with keys as JSON documents of this program have them, `spentUsd` as `spent_usd`; its values, which may be a user's own, stay as they are. */
export function snakeKeys(object: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]) => [
      key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  );
}

import { escapeIdentifier } from 'pg';

/** A piece of SQL whose values travel as parameters. Pieces may stand inside pieces; node-postgres takes one as it is. */
export class Sql {
  readonly text: string;
  readonly values: unknown[];

  constructor(strings: readonly string[], parts: readonly unknown[]) {
    const values: unknown[] = [];
    this.text = write(strings, parts, values);
    this.values = values;
    this.#strings = strings;
    this.#parts = parts;
  }

  readonly #strings: readonly string[];
  readonly #parts: readonly unknown[];

  /** Its text within a larger statement, whose parameters it adds to. */
  within(values: unknown[]): string {
    return write(this.#strings, this.#parts, values);
  }
}

function write(strings: readonly string[], parts: readonly unknown[], values: unknown[]): string {
  const written = parts.map((part) => (part instanceof Sql ? part.within(values) : `$${values.push(part)}`));
  return strings.map((text, at) => text + (written[at] ?? '')).join('');
}

/**
 * SQL as it reads: sql`SELECT balance FROM account WHERE id = ${id}`. Each `${…}` becomes a parameter, never text; numbers that must be exact
 * are given as text. Postgres takes a parameter's type from where it stands; where nothing tells, write `${amount}::numeric`.
 */
export function sql(strings: TemplateStringsArray, ...parts: unknown[]): Sql {
  return new Sql(strings, parts);
}

/** A name, or names joined by dots, quoted: `bank.account`. */
export function named(name: string): Sql {
  return new Sql([name.split('.').map(escapeIdentifier).join('.')], []);
}

/** Pieces with commas between them. */
export function list(pieces: readonly Sql[]): Sql {
  return new Sql(['', ...pieces.slice(1).map(() => ', '), ''], pieces);
}

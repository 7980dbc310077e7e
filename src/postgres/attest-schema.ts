import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { type Finding, fail, ok, warn } from './finding.ts';
import { requireSchema } from './migrate.ts';
import { packageRoot } from './package-root.ts';
import {
  DUMPED_VERSION,
  GRANTS_TITLE,
  ROLES_TITLE,
  readSchema,
  type SchemaSection,
  sectionOf,
  serverVersion,
  VIEWS_TITLE,
} from './schema-dump.ts';

/** What a dump calls the object that begins on a line. */
const OBJECT =
  /^(?:CREATE (?:OR REPLACE )?|ALTER )(?:UNIQUE |CONSTRAINT )?((?:TABLE|INDEX|FUNCTION|PROCEDURE|VIEW|MATERIALIZED VIEW|TRIGGER|SEQUENCE|TYPE|POLICY|ROLE|ROUTINE|SCHEMA) [^\s(]+)/;
const NAMED = 10;

/** The dump that ships with this version: what a database must look like after all migrations. */
export function goldenSchema(): string {
  return readFileSync(join(packageRoot(), 'db', 'schema.sql'), 'utf8');
}

/** Have exactly this version's migrations been applied, as they are now? */
export async function attestMigrations(client: Client): Promise<Finding> {
  try {
    await requireSchema(client);
    return ok('migrations', 'all of this version, unchanged');
  } catch (error) {
    if (!(error instanceof MadrugadaError)) throw error;
    const [what, next = 'madrugada init'] = error.message.split(/; run: |\. Nothing was changed: /);
    return fail('migrations', String(what), next);
  }
}

/**
 * Is every table, column, constraint, index, trigger, function and view what the migrations made? Compared is `golden`, by default the dump
 * that ships with this version, with what the catalogs say. Rights are compared elsewhere. Changes the session's search_path.
 */
export async function attestObjects(client: Client, golden: string = goldenSchema()): Promise<Finding> {
  const check = 'schema';
  const version = await serverVersion(client);
  const isPrinter = version === DUMPED_VERSION;
  const sections = (await readSchema(client)).filter(
    ({ title }) => title !== GRANTS_TITLE && (isPrinter || title !== VIEWS_TITLE),
  );
  const different = [...new Set(sections.flatMap((section) => differences(section, golden)))].sort();
  if (different.length === 0)
    return ok(
      check,
      isPrinter
        ? 'as the migrations made it'
        : `as the migrations made it, views aside, which PostgreSQL ${version} prints in its own way`,
    );
  const more = different.length > NAMED ? ` and ${different.length - NAMED} more` : '';
  const seen = `not as the migrations made it: ${different.slice(0, NAMED).join(', ')}${more}`;
  const next =
    'compare with db/schema.sql and undo the change by hand, or restore a backup; a change that is wanted belongs into a migration';
  // the golden dump is printed by one version: where another prints it, a difference may be the printer's
  return isPrinter ? fail(check, seen, next) : warn(check, `${seen} (printed by PostgreSQL ${version})`, next);
}

/** Names of the objects of one section that are new, gone or different. */
function differences({ title, entries }: SchemaSection, golden: string): string[] {
  let rest = `\n${sectionOf(golden, title)}\n`;
  const surplus: string[] = [];
  for (const entry of entries.toSorted((a, b) => b.length - a.length)) {
    if (title === ROLES_TITLE && isOfInstallation(entry)) continue;
    const at = rest.indexOf(`\n${entry}\n`);
    if (at < 0) surplus.push(entry);
    else rest = `${rest.slice(0, at)}\n${rest.slice(at + entry.length + 1)}`;
  }
  const missing = rest.split('\n').filter((line) => OBJECT.test(line) && !isOfInstallation(line));
  return [...surplus, ...missing].map((entry) => OBJECT.exec(entry)?.[1] ?? entry.split('\n')[0] ?? entry);
}

/** The program's own roles; who else may enter the schema, and who is a member of those, is each installation's business. */
const OWN_ROLE = /^CREATE ROLE madrugada_(owner|worker|operator|approver|auditor) /;

function isOfInstallation(line: string): boolean {
  return line.startsWith('GRANT ') || (line.startsWith('CREATE ROLE ') && !OWN_ROLE.test(line));
}

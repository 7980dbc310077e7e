import { runCommand } from './command.ts';

/** One check of `madrugada doctor --json`. */
export interface Check {
  check: string;
  level: 'ok' | 'warn' | 'fail';
  seen: string;
  next: string | null;
}

/** What `madrugada doctor --json` says of the database at `url`, and how it ends. */
export async function examine(
  url: string,
  ...flags: string[]
): Promise<{ code: number | null; document: { ok: boolean; checks: Check[]; exposure_sentence: string | null } }> {
  const { code, stdout, stderr } = await runCommand(['doctor', '--json', ...flags], {
    environment: { DATABASE_URL: url },
  });
  if (stdout === '') throw new Error(stderr);
  return { code, document: JSON.parse(stdout) };
}

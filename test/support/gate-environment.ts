import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Where the gates of this process lie. */
export const GATE_FOLDER = mkdtempSync(join(tmpdir(), 'madrugada-gates-'));

/** The failpoints that a test can hold shut. */
export const GATED = [
  'journal.intent.before',
  'journal.intent.after',
  'journal.outcome.before',
  'journal.outcome.after',
  'journal.group.before',
  'journal.group.after',
] as const;

// Failpoints are read when src/failpoint.ts is loaded, so a test imports this module, for its effect alone, before anything else.
process.env.MADRUGADA_FAILPOINT = GATED.map(
  (name) => `${name}:create(${join(GATE_FOLDER, name)}.reached),${name}:gate(${join(GATE_FOLDER, name)})`,
).join(',');

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { checkFigures } from '../../src/rehearsal/check-figures.ts';
import { RUNS, rehearseNight } from '../../src/rehearsal/rehearse-night.ts';

const PATIENCE_MS = 300_000;
const home = mkdtempSync(join(tmpdir(), 'madrugada noite é longa '));

describe('the rehearsal, with real processes and signals', () => {
  process.env.MADRUGADA_HOME = home;
  afterAll(() => {
    delete process.env.MADRUGADA_HOME;
    rmSync(home, { recursive: true });
  });

  const rehearse = async (only: string) => {
    const lines: string[] = [];
    const [run, ...others] = await rehearseNight({
      only,
      tasks: 20,
      workers: 4,
      crashAt: 215,
      say: (line) => lines.push(line),
    });
    if (run === undefined || others.length > 0) throw new Error('one run was asked for');
    return { ...run, lines };
  };

  test.each(RUNS.map(({ name }) => name))(
    '%s: every figure is as it must be',
    async (name) => {
      const { figures, problems } = await rehearse(name);
      expect(problems).toEqual([]);
      expect(figures.completed).toBe(20);
      expect(figures.calls - figures.duplicates).toBe(500);
    },
    PATIENCE_MS,
  );

  test(
    'a bill with one charge too many is found out, whichever side tells of it',
    async () => {
      const { figures } = await rehearse('no-crash');
      const expected = { duplicates: 0, inDoubt: 0, attempts: 1 };
      expect(checkFigures(figures, expected)).toEqual([]);
      expect(checkFigures({ ...figures, calls: 501 }, expected)).toEqual([
        'charges on the bill: 501, and it must be 500',
      ]);
      const [problem] = checkFigures({ ...figures, auditDuplicates: [{ call: 'a 1', named: true }] }, expected);
      expect(problem).toBe('duplicates found by the audit view: 1, and it must be 0');
    },
    PATIENCE_MS,
  );
});

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { packageRoot } from '../../src/postgres/package-root.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'madrugada-layout-'));
  for (const file of ['biome.json', 'biome.imports.json']) copyFileSync(join(packageRoot(), file), join(folder, file));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Lints a file of the project that imports `imported`; the import's error, or undefined. */
function lint(file: string, imported: string): string | undefined {
  const path = join(folder, file);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `import { thing } from '${imported}';\nthing();\n`);
  const { stdout } = spawnSync(
    join(packageRoot(), 'node_modules', '.bin', 'biome'),
    ['lint', '--vcs-enabled=false', '--reporter=json', file],
    { cwd: folder, encoding: 'utf8' },
  );
  const { diagnostics, summary } = JSON.parse(stdout) as {
    diagnostics: { category: string; message: string }[];
    summary: { unchanged: number };
  };
  expect(summary.unchanged, 'one file was linted').toBe(1);
  expect(diagnostics.every(({ category }) => category === 'lint/style/noRestrictedImports')).toBe(true);
  return diagnostics[0]?.message;
}

test('a folder may not import from one to its left', () => {
  expect(lint('src/postgres/connect.ts', '../journal/session.ts')).toContain('src/postgres imports one way only');
  expect(lint('src/lease/claim.ts', '../worker/slot.ts')).toContain('src/lease imports one way only');
});

test('a folder within a folder may not either', () => {
  expect(lint('src/agent/recursive/sandbox.ts', '../../worker/slot.ts')).toContain('src/agent imports one way only');
});

test('a folder may import from one to its right, and the files beside the folders', () => {
  expect(lint('src/lease/claim.ts', '../postgres/connect.ts')).toBeUndefined();
  expect(lint('src/journal/session.ts', '../lease/claim.ts')).toBeUndefined();
  expect(lint('src/postgres/connect.ts', '../errors.ts')).toBeUndefined();
});

test('nothing within src imports the public API', () => {
  expect(lint('src/cli/run.ts', '../index.ts')).toContain('src/cli imports one way only');
});

test('the files beside the folders import no folder', () => {
  expect(lint('src/errors.ts', './postgres/connect.ts')).toContain('every folder imports this file');
});

test('the simulator imports nothing of ours, and only the command line imports it', () => {
  expect(lint('src/simulator/server.ts', '../errors.ts')).toContain('nothing of ours');
  expect(lint('src/simulator/server.ts', '../provider/usage.ts')).toContain('nothing of ours');
  expect(lint('src/rehearsal/simulated-provider.ts', '../simulator/server.ts')).toContain('src/rehearsal imports');
  expect(lint('src/cli/simulate-provider.ts', '../simulator/server.ts')).toBeUndefined();
});

test('every folder of src stands in the order', () => {
  const { overrides } = JSON.parse(readFileSync(join(packageRoot(), 'biome.imports.json'), 'utf8')) as {
    overrides: { includes: string[] }[];
  };
  const ruled = overrides.flatMap(({ includes }) => includes);
  const folders = readdirSync(join(packageRoot(), 'src'), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  );
  expect(ruled).toEqual(expect.arrayContaining(folders.map(({ name }) => `src/${name}/**`)));
});

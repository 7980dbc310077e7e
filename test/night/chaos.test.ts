import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const script = fileURLToPath(new URL('./chaos.ts', import.meta.url));

test('a night survives ten kills at random moments: no answer lost, no charge doubled unnamed', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [script, '--kills', '10', '--seed', '215']);
  expect(stdout).toContain('60 of 60 tasks completed');
}, 300_000);

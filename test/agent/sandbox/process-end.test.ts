import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { runCommand } from '../../support/command.ts';

const PROGRAM = fileURLToPath(new URL('../../support/one-sandbox.ts', import.meta.url));

test('a process ends by itself when its sandboxes are closed, and not before their turns have ended', async () => {
  expect(await runCommand([], { script: PROGRAM })).toMatchObject({ code: 0, stdout: 'an answer\n' });
});

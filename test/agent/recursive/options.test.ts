import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checkOptions } from '../../../src/agent/define-agent.ts';
import { recursiveAgent } from '../../../src/agent/recursive/recursive-agent.ts';
import { runCommand } from '../../support/command.ts';
import { recursiveBench } from '../../support/recursive-bench.ts';
import { testFolder } from '../../support/test-folder.ts';

const bench = recursiveBench();
let batches = 0;

/** `madrugada batch load` of one question with these options, in a folder of its own. */
async function load(...options: string[]) {
  const folder = testFolder();
  mkdirSync(join(folder, 'documents'));
  writeFileSync(join(folder, 'documents', 'a.txt'), 'A');
  writeFileSync(join(folder, 'tasks.csv'), 'item,question\n1,What?\n');
  batches += 1;
  const id = `options-${batches}`;
  const result = await runCommand(
    [
      ...['batch', 'load', id, 'tasks.csv', '--version', 'v1', '--agent', 'recursive'],
      ...options.flatMap((option) => ['--option', option]),
    ],
    { folder, environment: { DATABASE_URL: bench.journal.db.url } },
  );
  const { rows } = await bench.journal.db.pool.query('SELECT agent_options FROM madrugada.batch WHERE id = $1', [id]);
  return { ...result, folder, stored: rows[0]?.agent_options };
}

/** What the agent says of options given as text. */
async function problemsOf(options: Record<string, string>): Promise<string[]> {
  return (await checkOptions(recursiveAgent, options)).problems ?? [];
}

test('good options are kept with the batch, the folder of the documents with its whole path', async () => {
  const { code, stored, folder } = await load('documents=documents', 'max_turns=5');

  expect(code).toBe(0);
  expect(stored).toEqual({ documents: join(folder, 'documents'), max_turns: '5' });
});

test('an option that the agent does not have is refused when the batch is loaded, and nothing is', async () => {
  const { code, stderr, stored } = await load('max_turn=5');

  expect(code).toBe(2);
  expect(stderr).toMatch(/options do not fit agent recursive: there is no option max_turn;/);
  expect(stderr).toContain('Nothing was loaded.');
  expect(stored).toBeUndefined();
});

test('every bad value is named at once', async () => {
  const { code, stderr, stored } = await load('max_turns=many', 'cache=2h', 'documents=nowhere');

  expect(code).toBe(2);
  for (const name of ['max_turns: ', 'cache: ', 'documents: there is no such folder']) expect(stderr).toContain(name);
  expect(stored).toBeUndefined();
});

const BAD: [string, string][] = [
  ['max_turns', '0'],
  ['max_turns', '1.5'],
  ['max_subcalls', '-1'],
  ['max_subcalls', ''],
  ['max_concurrent_subcalls', '0'],
  ['max_concurrent_subcalls', '101'],
  ['max_depth', '6'],
  ['max_output_chars', '10'],
  ['max_task_tokens', 'x'],
  ['max_task_tokens', '0'],
  ['max_task_usd', '1,50'],
  ['max_task_usd', '-1'],
  ['effort', 'extreme'],
  ['temperature', '2'],
  ['temperature', 'warm'],
  ['temperature', ''],
  ['root_model', ''],
];

for (const [name, value] of BAD)
  test(`${name}=${value} is refused`, async () => {
    expect(await problemsOf({ [name]: value })).toEqual([expect.stringMatching(`^${name}: `)]);
  });

test('a file is no folder of documents', async () => {
  const file = join(testFolder(), 'a.txt');
  writeFileSync(file, 'A');
  expect(await problemsOf({ documents: file })).toEqual(['documents: there is no such folder']);
});

test('no option is needed', async () => {
  expect(await problemsOf({})).toEqual([]);
});

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { licenceQuestions } from '../../examples/licences/generate.ts';
import { loadBatch } from '../batch/load-batch.ts';
import type { NewTask } from '../batch/read-tasks.ts';
import { openClient } from '../postgres/connect.ts';

/** The list that a rehearsal loads: `tasks` consecutive example questions around question `crashAt`. */
export interface RehearsalList {
  tasks: number;
  crashAt: number;
  leaseSeconds: number;
  /** Options of the agent beside its documents. */
  agentOptions?: Record<string, string>;
}

const VERSION = 'v1';
/** Where question 215 stands in the whole list of 400, so that a shorter one has it at the same part of the night. */
const CRASH_SHARE = 214 / 400;

const here = import.meta.url;
const examples = fileURLToPath(new URL('../../examples/', here));

/** Loads the list as batch `rehearsal:v1` with the agent `recursive`. Returns its key. */
export async function loadRehearsalBatch(
  url: string,
  { tasks, crashAt, leaseSeconds, agentOptions = {} }: RehearsalList,
): Promise<string> {
  const client = await openClient({ url, as: 'operator', applicationName: 'madrugada/rehearsal load' });
  try {
    const loaded = await loadBatch(
      client,
      {
        id: 'rehearsal',
        version: VERSION,
        agent: 'recursive',
        agentOptions: { ...agentOptions, documents: documentsFolder() },
        maxAttempts: 3,
        leaseSeconds,
        doubtPolicy: 'pay_again',
      },
      questionsAround(crashAt, tasks),
    );
    return loaded.batchKey;
  } finally {
    await client.end();
  }
}

/** The reports are text, which a build leaves where it is. */
function documentsFolder(): string {
  return here.endsWith('.ts')
    ? join(examples, 'licences', 'reports')
    : fileURLToPath(new URL('../../../examples/licences/reports', here));
}

async function* questionsAround(crashAt: number, tasks: number): AsyncGenerator<NewTask> {
  const first = Math.max(1, crashAt - Math.floor(tasks * CRASH_SHARE));
  const questions = licenceQuestions(first - 1 + tasks).slice(first - 1);
  for (const [index, { item, ...input }] of questions.entries())
    yield { position: index + 1, item, inputJson: JSON.stringify(input) };
}

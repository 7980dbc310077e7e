import { type Command, InvalidArgumentError, Option } from 'commander';
import { closeBatch, resumeBatch, stopBatch } from '../batch/change-batch.ts';
import { allBatches, type Batch, findBatch } from '../batch/find-batch.ts';
import { batchFigures, countTasks } from '../batch/show-batch.ts';
import { exposureSentence, readExposure } from '../bill/exposure.ts';
import { registerBudget } from './batch-budget.ts';
import { dollars, positiveInteger } from './flags.ts';
import { type LoadFlags, loadList } from './load-list.ts';
import { type CommonFlags, formatTable, printResult, snakeKeys } from './output.ts';
import { NOW_TEXT } from './stop.ts';
import { withClient } from './with-client.ts';

interface PersonFlags extends CommonFlags {
  by: string;
  reason: string;
}

const LOAD_HELP = `
FILE is JSON Lines or CSV in UTF-8, "-" for standard input, with a column "item" that names the task; all others are its input. The list is
loaded whole or not at all, and is closed then: loading it again changes nothing, another list under the same name is refused.

A call that its provider refuses --fall-back-after times (status 429, 5xx and the like; not for its credentials or for a malformed request) asks
the --fall-back model instead. It is priced as that model, and view "call" has both.

Examples:
  madrugada batch load 2026-11 questions.csv --version v3 --agent my-agent.ts --option documents=reports
  madrugada batch load 2026-12 questions.csv --version v3 --fall-back claude-sonnet-5 --fall-back-after 3`;

/** `madrugada batch`: the closed lists of tasks. */
export function register(program: Command): void {
  const batch = program.command('batch').description('load, list, show, stop, resume and close batches');
  registerLoad(batch);
  registerBudget(batch);
  batch
    .command('list')
    .description('list all batches')
    .addHelpText('after', '\nExample:\n  madrugada batch list')
    .action(list);
  batch
    .command('show <batch>')
    .description('show one batch: its settings, tasks and spending')
    .addHelpText('after', '\nExample:\n  madrugada batch show 2026-11')
    .action(show);
  batch
    .command('stop <batch>')
    .description('stop a batch: no further call is paid, running tasks are given back')
    .requiredOption('--reason <text>', 'why')
    .option('--by <name>', 'who')
    .option('--now', NOW_TEXT)
    .addHelpText('after', '\nExample:\n  madrugada batch stop 2026-11 --reason "wrong documents"')
    .action(stop);
  batch
    .command('resume <batch>')
    .description('open a stopped batch again')
    .requiredOption('--by <name>', 'who')
    .requiredOption('--reason <text>', 'why')
    .addHelpText('after', '\nExample:\n  madrugada batch resume 2026-11 --by ana --reason "documents replaced"')
    .action(resume);
  batch
    .command('close <batch>')
    .description('close a batch whose tasks are all completed or failed')
    .option('--give-up-pending', 'fail the pending tasks of a stopped batch first')
    .option('--by <name>', 'who')
    .addHelpText('after', '\nExample:\n  madrugada batch close 2026-11')
    .action(close);
}

function registerLoad(batch: Command): void {
  batch
    .command('load <id> <file>')
    .description('load a closed list of tasks from a file')
    .requiredOption('--version <version>', 'of the program that answers, such as v3')
    .option('--agent <agent>', 'a module that exports an agent, or a built-in one', 'prompt')
    .option('--budget <usd>', 'dollars the batch may cost at most', dollars)
    .option('--task-budget <usd>', 'dollars each task may cost at most', dollars)
    .option('--velocity <usd>', 'dollars in any ten minutes; more stops the batch', dollars)
    .option('--max-output-tokens <n>', 'what a call may ask for at most; more is lowered to it', positiveInteger)
    .option('--option <key=value>', 'for the agent; may be repeated', collectOption, {})
    .option('--fall-back <model>', 'the model that a refused call asks in the stead of its own; see --fall-back-after')
    .option('--fall-back-after <n>', 'refusals of a call before it falls back', positiveInteger)
    .option(
      '--stop-after-failures <n>',
      'failed attempts in a row, none completed meanwhile, that stop the batch',
      positiveInteger,
      10,
    )
    .option('--max-attempts <n>', 'attempts of a task before it fails', positiveInteger, 3)
    .option('--lease-seconds <n>', 'how long a silent slot keeps its task', positiveInteger, 600)
    .addOption(
      new Option('--doubt <policy>', 'for calls of which nobody knows whether they were charged')
        .choices(['pay_again', 'hold'])
        .default('pay_again'),
    )
    .option('--unrehearsed', 'let its actions be proposed without a passing rehearsal of its agent; needs --by')
    .option('--by <name>', 'who loads it, for the audit trail')
    .addHelpText('after', LOAD_HELP)
    .action(load);
}

async function load(id: string, file: string, flags: LoadFlags): Promise<void> {
  const { batchKey, tasks, tasksSha256, loaded, kept } = await loadList(id, file, flags);
  const lines = loaded
    ? [`batch ${batchKey}: ${tasks} tasks loaded`, `madrugada run ${batchKey} --simulate tries it for free`]
    : [`batch ${batchKey}: this list of ${tasks} tasks was loaded before; nothing was changed`, ...kept];
  printResult(flags, { batch: batchKey, tasks, tasks_sha256: tasksSha256, loaded, kept }, lines.join('\n'));
}

async function list(flags: CommonFlags): Promise<void> {
  await withClient('auditor', async (client) => {
    const batches = await allBatches(client);
    const counts = await countTasks(client);
    const rows = batches.map(({ key, state, tasks, createdAt }) => {
      const { completed = 0, failed = 0 } = counts.get(key) ?? {};
      return { batch: key, state, tasks, completed, failed, loaded_at: createdAt };
    });
    const table = formatTable(
      ['batch', 'state', 'tasks', 'completed', 'failed', 'loaded'],
      rows.map((row) => [row.batch, row.state, row.tasks, row.completed, row.failed, row.loaded_at.toISOString()]),
    );
    printResult(flags, rows, batches.length === 0 ? 'no batch is loaded; see madrugada batch load --help' : table);
  });
}

async function show(name: string, flags: CommonFlags): Promise<void> {
  await withClient('auditor', async (client) => {
    const batch = await findBatch(client, name);
    const figures = await batchFigures(client, batch.key);
    const exposure = await readExposure(client, batch.key);
    const { pending, running, completed, failed } = figures.tasks;
    const lines = [
      `batch ${batch.key}, ${batch.state}${batch.stopReason === null ? '' : `: ${batch.stopReason}`}`,
      `agent ${batch.agent} ${JSON.stringify(batch.agentOptions)}`,
      `list of ${batch.tasks} tasks, sha256 ${batch.tasksSha256}, loaded ${batch.createdAt.toISOString()}`,
      `at most ${batch.maxAttempts} attempts, lease ${batch.leaseSeconds} s, doubt: ${batch.doubtPolicy}, ${
        batch.budgetUsd === null ? 'no budget' : `budget US$ ${batch.budgetUsd}`
      }`,
      `${fallBackText(batch)}; stops after ${batch.stopAfterFailures} failed attempts in a row`,
      ...(batch.unrehearsed ? ['its actions may be proposed without a rehearsal of its agent (--unrehearsed)'] : []),
      `tasks: ${completed} completed, ${failed} failed, ${running} running, ${pending} pending`,
      `calls: ${figures.calls} answered, ${figures.charged} charged for US$ ${figures.spentUsd}, ${figures.refused} refused, ${figures.inDoubt} in doubt`,
      exposureSentence(exposure),
    ];
    const document = { ...snakeKeys(batch), figures: snakeKeys(figures), exposure: snakeKeys(exposure) };
    printResult(flags, document, lines.join('\n'));
  });
}

function fallBackText({ fallBackModel, fallBackAfter }: Batch): string {
  if (fallBackModel === null) return 'no fall-back model';
  return `a call refused ${fallBackAfter} times asks ${fallBackModel}`;
}

async function stop(name: string, flags: CommonFlags & { by?: string; reason: string; now?: boolean }): Promise<void> {
  await change(name, flags, (client) => stopBatch(client, name, flags), 'stopped');
}

async function resume(name: string, flags: PersonFlags): Promise<void> {
  await change(name, flags, (client) => resumeBatch(client, name, flags), 'open');
}

async function close(name: string, flags: CommonFlags & { by?: string; giveUpPending?: boolean }): Promise<void> {
  await change(
    name,
    flags,
    (client) => closeBatch(client, name, { by: flags.by }, flags.giveUpPending === true),
    'closed',
  );
}

type Client = Parameters<typeof stopBatch>[0];

async function change(
  name: string,
  flags: CommonFlags,
  work: (client: Client) => Promise<boolean>,
  state: Batch['state'],
): Promise<void> {
  await withClient('operator', async (client) => {
    const changed = await work(client);
    const { key } = await findBatch(client, name);
    printResult(flags, { batch: key, state, changed }, `batch ${key} is ${changed ? '' : 'already '}${state}`);
  });
}

function collectOption(text: string, earlier: Record<string, string>): Record<string, string> {
  const equals = text.indexOf('=');
  if (equals <= 0) throw new InvalidArgumentError('It must be KEY=VALUE.');
  return { ...earlier, [text.slice(0, equals)]: text.slice(equals + 1) };
}

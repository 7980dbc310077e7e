import { resolve } from 'node:path';
import { checkOptions, checkSchema } from '../agent/define-agent.ts';
import { loadAgent, resolveAgent } from '../agent/load-agent.ts';
import { type LoadedBatch, loadBatch, type NewBatch } from '../batch/load-batch.ts';
import { readTasks } from '../batch/read-tasks.ts';
import { MadrugadaError } from '../errors.ts';
import { PriceBook } from '../provider/prices.ts';
import { readAllPrices } from '../provider/read-prices.ts';
import type { CommonFlags } from './output.ts';
import { withClient } from './with-client.ts';

export interface LoadFlags extends CommonFlags {
  version: string;
  agent: string;
  budget?: string;
  taskBudget?: string;
  velocity?: string;
  maxOutputTokens?: number;
  fallBack?: string;
  fallBackAfter?: number;
  stopAfterFailures?: number;
  option: Record<string, string>;
  maxAttempts: number;
  leaseSeconds: number;
  doubt: 'pay_again' | 'hold';
  unrehearsed?: boolean;
  by?: string;
}

/** The option that names a folder; kept absolute, because a night may be started from another one. */
const FOLDER_OPTION = 'documents';

/** Checked now, because a model without a price would be found out in mid-night. */
async function readFallBack(
  db: Parameters<typeof readAllPrices>[0],
  { fallBack: model, fallBackAfter: after }: LoadFlags,
): Promise<NewBatch['fallBack']> {
  if (model === undefined && after === undefined) return undefined;
  if (model === undefined || after === undefined)
    throw new MadrugadaError(
      'a fall-back is a model and a number of refusals: give both --fall-back MODEL and --fall-back-after N. Nothing was loaded.',
    );
  const problem = new PriceBook(await readAllPrices(db)).problemOf(model, new Date());
  if (problem !== undefined) throw new MadrugadaError(`--fall-back: ${problem}\nNothing was loaded.`);
  return { model, after };
}

/** Loads `file` as batch `id`, each line checked against its agent's input schema. Throws a MadrugadaError, having changed nothing. */
export async function loadList(id: string, file: string, flags: LoadFlags): Promise<LoadedBatch> {
  if (flags.unrehearsed && flags.by === undefined)
    throw new MadrugadaError(
      '--unrehearsed lets actions be proposed that were never rehearsed: say who answers for it, --by WHO',
    );
  const { agent } = await loadAgent(flags.agent);
  const validate = async (input: unknown) => (await checkSchema(agent.input, input)).problems ?? [];
  const documents = flags.option[FOLDER_OPTION];
  const agentOptions = { ...flags.option, ...(documents && { [FOLDER_OPTION]: resolve(documents) }) };
  const { problems } = await checkOptions(agent, agentOptions);
  if (problems)
    throw new MadrugadaError(
      `the options do not fit agent ${flags.agent}: ${problems.join('; ')}\nEach is given as --option name=value. Nothing was loaded.`,
    );
  return withClient('operator', async (client) =>
    loadBatch(
      client,
      {
        id,
        version: flags.version,
        agent: resolveAgent(flags.agent),
        agentOptions,
        budgetUsd: flags.budget,
        limits: {
          taskBudgetUsd: flags.taskBudget,
          velocityUsd: flags.velocity,
          maxOutputTokens: flags.maxOutputTokens,
        },
        maxAttempts: flags.maxAttempts,
        leaseSeconds: flags.leaseSeconds,
        doubtPolicy: flags.doubt,
        stopAfterFailures: flags.stopAfterFailures,
        fallBack: await readFallBack(client, flags),
        unrehearsed: flags.unrehearsed,
        by: flags.by,
      },
      readTasks(file, validate),
    ),
  );
}

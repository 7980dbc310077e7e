import { resolve } from 'node:path';
import { checkOptions, checkSchema } from '../agent/define-agent.ts';
import { loadAgent, resolveAgent } from '../agent/load-agent.ts';
import { type LoadedBatch, loadBatch } from '../batch/load-batch.ts';
import { readTasks } from '../batch/read-tasks.ts';
import { MadrugadaError } from '../errors.ts';
import type { CommonFlags } from './output.ts';
import { withClient } from './with-client.ts';

export interface LoadFlags extends CommonFlags {
  version: string;
  agent: string;
  budget?: string;
  taskBudget?: string;
  velocity?: string;
  maxOutputTokens?: number;
  option: Record<string, string>;
  maxAttempts: number;
  leaseSeconds: number;
  doubt: 'pay_again' | 'hold';
  by?: string;
}

/** The option that names a folder; kept absolute, because a night may be started from another one. */
const FOLDER_OPTION = 'documents';

/** Loads `file` as batch `id`, each line checked against its agent's input schema. Throws a MadrugadaError, having changed nothing. */
export async function loadList(id: string, file: string, flags: LoadFlags): Promise<LoadedBatch> {
  const { agent } = await loadAgent(flags.agent);
  const validate = async (input: unknown) => (await checkSchema(agent.input, input)).problems ?? [];
  const documents = flags.option[FOLDER_OPTION];
  const agentOptions = { ...flags.option, ...(documents && { [FOLDER_OPTION]: resolve(documents) }) };
  const { problems } = await checkOptions(agent, agentOptions);
  if (problems)
    throw new MadrugadaError(
      `the options do not fit agent ${flags.agent}: ${problems.join('; ')}\nEach is given as --option name=value. Nothing was loaded.`,
    );
  return withClient('operator', (client) =>
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
        by: flags.by,
      },
      readTasks(file, validate),
    ),
  );
}

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AnyAction, ReadBack } from '../action/define-action.ts';
import { defineAgent } from '../agent/define-agent.ts';
import { loadAgent } from '../agent/load-agent.ts';

/** What the workers of a rehearsal are told, in `MADRUGADA_REHEARSAL`. */
export interface RehearsedAs {
  /** The user's module. */
  module: string;
  /** Where is noted what the targets showed. */
  folder: string;
  /** Each action's first read-back that finds its effect says that it found something else. */
  failVerification: boolean;
}

const { module, folder, failVerification } = JSON.parse(process.env.MADRUGADA_REHEARSAL ?? '{}') as RehearsedAs;
const { agent } = await loadAgent(module);
for (const action of agent.actions ?? []) watch(action);

/**
 * The user's agent as a rehearsal runs it, in worker processes of its own: what its actions do at their targets is noted, and at the end its
 * task fails, so that the engine takes everything back. Nothing of this is in the code that works at night.
 */
export default defineAgent({
  ...agent,
  run: async (task) => {
    await agent.run(task);
    throw new Error('the rehearsal takes back what was done');
  },
});

function watch(action: AnyAction): void {
  const { verify } = action;
  action.verify = async (args, before, effect, context): Promise<ReadBack> => {
    const found = await verify.call(action, args, before, effect, context);
    if (found.found !== 'effect') return found;
    const present = await action.present?.(args);
    const isFirst = noteOnce(join(folder, `${context.key}.json`), JSON.stringify(present ?? null));
    return failVerification && isFirst ? { found: 'something else', evidence: found.evidence } : found;
  };
}

/** True for the first caller; what it wrote stays. */
function noteOnce(file: string, text: string): boolean {
  try {
    writeFileSync(file, text, { flag: 'wx' });
    return true;
  } catch {
    return false; // an earlier read-back of this action was here
  }
}

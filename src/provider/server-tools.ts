import Big from 'big.js';
import { type ModelPrice, toolFee } from './model-price.ts';
import { isObject, stringOf } from './usage.ts';

/** How often the provider runs tools for one request at most, each time reading everything again, and what they cost in dollars. */
export interface Passes {
  uses: number;
  fees: Big;
}

/** Tools that the caller runs: the provider only names their arguments. */
const CALLERS_OWN = /^(custom|function|bash_\d+|text_editor_\d+|computer_\d+|memory_\d+)$/;

/** Parts of a request that let the provider work on, as often as it likes. */
const UNBOUNDED = ['mcp_servers', 'web_search_options', 'background'] as const;

export function passesOf(body: Record<string, unknown>, price: ModelPrice): Passes | { problem: string } {
  const unbounded = UNBOUNDED.find((name) => body[name] !== undefined && body[name] !== null && body[name] !== false);
  if (unbounded !== undefined || compacts(body))
    return {
      problem: `${unbounded ?? 'compaction'} lets the provider read the prompt again without bound: leave it out`,
    };
  let passes: Passes = { uses: 0, fees: new Big(0) };
  for (const tool of Array.isArray(body.tools) ? body.tools : []) {
    const more = passesOfTool(tool, price);
    if ('problem' in more) return more;
    passes = { uses: passes.uses + more.uses, fees: passes.fees.plus(more.fees) };
  }
  return passes;
}

function passesOfTool(tool: unknown, price: ModelPrice): Passes | { problem: string } {
  const type = isObject(tool) ? tool.type : undefined;
  if (!isObject(tool) || type === undefined || type === null || CALLERS_OWN.test(stringOf(type) ?? ''))
    return { uses: 0, fees: new Big(0) };
  const name = String(type);
  const fee = toolFee(price, name.replace(/_\d+$/, ''));
  if (fee === undefined)
    return {
      problem: `tool ${name} runs at the provider, and the price of ${price.model} has no fee for it: add it to "server_tools_per_1000", or leave the tool out`,
    };
  const uses = tool.max_uses;
  if (typeof uses !== 'number' || !Number.isSafeInteger(uses) || uses < 0)
    return { problem: `tool ${name} may be used without bound: give it max_uses` };
  return { uses, fees: fee.times(uses) };
}

/** Compaction generates a summary of the prompt besides the answer. */
function compacts({ context_management: management }: Record<string, unknown>): boolean {
  const edits = Array.isArray(management) ? management : isObject(management) ? management.edits : undefined;
  return Array.isArray(edits) && edits.some((edit) => isObject(edit) && stringOf(edit.type)?.startsWith('compact'));
}

import Big from 'big.js';
import type { ModelPrice } from './model-price.ts';
import { Unbounded } from './unbounded.ts';
import { isObject } from './usage.ts';

/** What the provider's own tools add to a request: fees, and how often the model reads its input. */
export interface ServerToolBound {
  feesUsd: Big;
  /** Times the whole input may be read; 1 without such tools. */
  readings: number;
}

/** Tools that the caller runs, by the names of the Anthropic and OpenAI APIs. Whatever is not one of them may cost. */
const CLIENT_TOOL =
  /^(custom|function|local_shell|apply_patch|computer_use_preview|(bash|text_editor|computer|memory|computer_toolset|browser_toolset)_\d{8})$/;
/** The provider ends its own loop after as many rounds, refused uses included (https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools). */
const ROUNDS = 10;
const THOUSANDTH = new Big('0.001');

/** Bounds what the provider's own tools may cost. Each needs a fee in the price and a `max_uses` in the request. */
export function boundServerTools(price: ModelPrice, request: Record<string, unknown>): ServerToolBound {
  for (const field of ['mcp_servers', 'web_search_options', 'context_management'])
    if (isUsed(request[field])) throw new Unbounded(`"${field}" lets the provider read as often as it likes`);
  const tools = Array.isArray(request.tools) ? request.tools.filter(isServerTool) : [];
  const uses = tools.map((tool) => ({ fee: feeOf(price, tool), times: timesOf(tool) }));
  const total = uses.reduce((sum, { times }) => sum + times, 0);
  return {
    feesUsd: uses.reduce((sum, { fee, times }) => sum.plus(fee.times(times).times(THOUSANDTH)), new Big(0)),
    readings: tools.length === 0 ? 1 : Math.max(total, ROUNDS) + 1,
  };
}

/** Context management that only clears, as `clear_tool_uses_20250919` does, reads nothing again; a compaction does. */
function isUsed(value: unknown): boolean {
  if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) return false;
  const edits = isObject(value) && Array.isArray(value.edits) ? value.edits : undefined;
  return edits?.every((edit) => isObject(edit) && /^clear_/.test(String(edit.type))) !== true;
}

function isServerTool(tool: unknown): tool is Record<string, unknown> {
  return !isObject(tool) || (tool.type !== undefined && !CLIENT_TOOL.test(String(tool.type)));
}

function nameOf(tool: Record<string, unknown>): string {
  return String(tool.type).replace(/_\d{8}$/, '');
}

function feeOf(price: ModelPrice, tool: Record<string, unknown>): Big {
  const fee = price.serverToolsPer1000.get(nameOf(tool));
  if (fee !== undefined) return fee;
  throw new Unbounded(
    `tool ${nameOf(tool)} of model ${price.model} has no fee; where it has one for each use, give it in the price's "server_tools_per_1000"`,
  );
}

function timesOf(tool: Record<string, unknown>): number {
  const { max_uses: times } = tool;
  if (typeof times === 'number' && Number.isSafeInteger(times) && times >= 0) return times;
  throw new Unbounded(`tool ${nameOf(tool)} says no "max_uses"; set it to a whole number`);
}
